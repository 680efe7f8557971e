from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ensemble_repo.settings import ADAPTERS, ENGINE, PREPROCESS
from tests.toy_tokenizers import byte_level_tokenizer
from tritone import __version__
from tritone.cli import main
from tritone.config import Config
from tritone.gateway.settings import GatewayConfig
from tritone.served_model import HAVE_A_PLACE


def tritone(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, terminal_width=200)


def test_version() -> None:
    assert tritone("--version").output == f"tritone, version {__version__}\n"


@pytest.mark.parametrize("command", ["serve", "gateway", "assemble", "doctor", "ask", "chat"])
def test_every_command_has_help_and_is_listed(command: str) -> None:
    assert f"  {command} " in tritone("--help").output
    assert tritone(command, "--help").exit_code == 0


def test_serve_has_an_option_for_every_field_with_its_default() -> None:
    output = tritone("serve", "--help").output
    for name, field in Config.model_fields.items():
        if name not in ("model", "settings", "gateway"):
            assert f"--{name.replace('_', '-')} " in output
            assert field.default in (None, False) or f"[default: {field.default}]" in output


def test_gateway_has_an_option_for_every_field_with_its_default() -> None:
    output = tritone("gateway", "--help").output
    for name, field in GatewayConfig.model_fields.items():
        assert f"--{name.replace('_', '-')} " in output
        assert field.default in (None, False, ()) or f"[default: {field.default}]" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--port", "0"), "--port: must be greater than or equal to 1, got '0'"),
        (("--tls-cert", "c"), "tls_cert and tls_key go together: give both or none"),
        (("--tls-cert", "/no/c", "--tls-key", "k"), "tls_cert /no/c, tls_key k: No such file or directory"),
        (("--api-key-file", "/no/keys"), "api_key_file: /no/keys cannot be read: No such file or directory"),
    ],
)
def test_what_the_gateway_cannot_do_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    assert tritone("gateway", *arguments).output == f"Error: {message}\n"


def test_help_lists_what_set_takes() -> None:
    output = tritone("serve", "--help").output
    settings = {setting.name for table in (PREPROCESS, ENGINE, *ADAPTERS.values()) for setting in table}
    assert [name for name in settings - set(HAVE_A_PLACE) if f"  {name} " not in output] == []


def test_help_imports_nothing_slow() -> None:
    show_help = "import sys; from tritone.cli import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", show_help], capture_output=True, text=True, check=True)
    imported = set(run.stdout.splitlines()[-1].split())
    assert imported & {"pydantic", "numpy", "transformers", "tokenizers", "grpc", "psutil"} == set()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("ack_timout_s=1", "unknown settings: ack_timout_s (did you mean ack_timeout_s?)"),
        ("ack_timeout_s=soon", "ack_timeout_s: expected float, got 'soon'"),
        ("engine=scripted", "settings: engine is given as --engine, not as a setting"),
    ],
)
def test_a_wrong_setting_is_one_line_before_a_model_is_looked_for(setting: str, message: str, tmp_path: Path) -> None:
    result = tritone("assemble", "/no/such/model", str(tmp_path / "out"), "--set", setting)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {message}")
    assert len(result.output.splitlines()) == 1


def test_a_wrong_option_is_one_line() -> None:
    result = tritone("serve", "--http-port", "0")
    assert (result.exit_code, result.output) == (
        1,
        "Error: --http-port: must be greater than or equal to 1, got '0'\n",
    )


def test_assemble_writes_a_repository_and_says_how_to_serve_it(tmp_path: Path) -> None:
    model, out = tmp_path / "toy", tmp_path / "out"
    model.mkdir()
    byte_level_tokenizer().save(str(model / "tokenizer.json"))
    result = tritone("assemble", str(model), str(out), "--engine", "scripted", "--name", "a b", "--max-model-len", "99")
    assert result.exit_code == 0
    (name,) = (path.name for path in out.iterdir() if "_" not in path.name)
    assert name.startswith("a-b-")
    assert (
        f'key: "max_model_len"\n  value {{\n    string_value: "{json.dumps(99)}"'
        in (out / f"{name}_preprocess/config.pbtxt").read_text()
    )
    assert f"-v {out}:{out}:ro" in result.output
    assert f"tritonserver --model-repository={out}" in result.output
    assert "not empty" in tritone("assemble", str(model), str(out), "--engine", "scripted").output
