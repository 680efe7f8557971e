from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_repo.settings import ADAPTERS
from tritone.config import Config, ConfigError
from tritone.config_sources import load_config, load_gateway, parse_assignments


@pytest.fixture
def write_toml(tmp_path: Path) -> Any:
    def write(text: str) -> dict[str, str]:
        path = tmp_path / "tritone.toml"
        path.write_text(text, "utf-8")
        return {"config": str(path)}

    return write


def error_of(options: dict[str, Any], environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(options, environment or {})
    return str(caught.value)


def test_nothing_given_means_the_defaults() -> None:
    config = load_config({"model": None, "http_port": None, "settings": {}}, {"HOME": "/root"})
    assert config == Config()
    assert (config.host, config.ports) == ("127.0.0.1", {"http_port": 8000, "grpc_port": 8001, "metrics_port": 8002})


def test_options_win_over_environment_over_file_over_default(write_toml: Any) -> None:
    file = write_toml("http_port = 1\ngrpc_port = 1\nmetrics_port = 1\n[settings]\na = 1\nb = 1\nc = 1")
    environment = {"TRITONE_GRPC_PORT": "2", "TRITONE_METRICS_PORT": "2", "TRITONE_SETTINGS": '{"b": 2, "c": 2}'}
    config = load_config({**file, "metrics_port": "3", "settings": {"c": 3}}, environment)
    assert list(config.ports.values()) == [1, 2, 3]
    assert config.settings == {"a": 1, "b": 2, "c": 3}
    assert config.max_num_seqs is None


def test_the_environment_can_name_the_file(write_toml: Any) -> None:
    path = write_toml("engine = 'scripted'\nready_timeout = 5")["config"]
    config = load_config({}, {"TRITONE_CONFIG": path})
    assert (config.engine, config.ready_timeout) == ("scripted", 5.0)


@pytest.mark.parametrize(
    ("options", "environment", "message"),
    [
        ({"http_port": "0"}, {}, "--http-port: must be greater than or equal to 1, got '0'"),
        ({"http_port": "65536"}, {}, "--http-port: must be less than or equal to 65535, got '65536'"),
        (
            {},
            {"TRITONE_HTTP_PORT": ""},
            "TRITONE_HTTP_PORT: must be a valid integer, unable to parse string as an integer, got ''",
        ),
        ({"log_format": "xml"}, {}, "--log-format: must be 'text' or 'json', got 'xml'"),
        ({"engine": "magic"}, {}, f"--engine: must be one of {', '.join(ADAPTERS)}, got 'magic'"),
        ({"model": ""}, {}, "MODEL: must have at least 1 character, got ''"),
        ({"ready_timeout": "nan"}, {}, "--ready-timeout: must be a finite number, got 'nan'"),
        ({}, {"TRITONE_SETTINGS": "[1]"}, "TRITONE_SETTINGS: must be a JSON object, got '[1]'"),
    ],
)
def test_a_bad_value_is_named_as_it_was_given(
    options: dict[str, str], environment: dict[str, str], message: str
) -> None:
    assert error_of(options, environment) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http_port = '8000'", "http_port: must be a valid integer, got '8000'"),
        ("max_num_seqs = true", "max_num_seqs: must be a valid integer, got True"),
        ("name = 3", "name: must be a valid string, got 3"),
        ("settings = 3", "settings: must be a valid dictionary, got 3"),
    ],
)
def test_a_value_of_the_wrong_type_in_the_file(write_toml: Any, text: str, message: str) -> None:
    file = write_toml(text)
    assert error_of(file) == f"{file['config']}: {message}"


def test_everything_wrong_is_told_at_once(write_toml: Any) -> None:
    file = write_toml("http_port = 0\nhttp_prot = 1")
    message = error_of({**file, "grpc_port": "x"}, {"TRITONE_LOG_LEVEL": "loud"})
    for name in (
        "http_port: must be",
        "http_prot is unknown (did you mean http_port?)",
        "--grpc-port",
        "TRITONE_LOG_LEVEL",
    ):
        assert name in message


def test_an_unknown_variable_is_an_error_that_names_the_nearest() -> None:
    message = error_of({}, {"TRITONE_HTP_PORT": "1"})
    assert message.startswith("environment: TRITONE_HTP_PORT is unknown (did you mean TRITONE_HTTP_PORT?)")


def test_variables_that_are_read_elsewhere_or_made_by_kubernetes_are_left_alone() -> None:
    names = ["CACHE", "RUN_DIR", "SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT_8000_TCP_ADDR", "CHAT_SERVICE_HOST"]
    environment = {f"TRITONE_{name}": "x" for name in names} | {"TRITONE_PORT": "tcp://10.0.0.1:8000"}
    assert load_config({}, environment) == Config()


def test_placeholders_are_errors_all_of_them_named(write_toml: Any) -> None:
    file = write_toml('host = "${HOST}"\n[settings]\ndevice = "${DEVICE}"\nstream_default = true')
    message = error_of({**file, "http_port": "${PORT}", "settings": {"chat_template": "${TEMPLATE}"}})
    for part in ("host: nothing was filled in for ${HOST}", "settings.device: nothing was filled in for ${DEVICE}"):
        assert f"{file['config']}: {part}" in message
    assert "--http-port: nothing was filled in for ${PORT}" in message
    assert "${TEMPLATE}" in message


@pytest.mark.parametrize("name", ["a b", 'a"b', "a\\b", "a,b:c", "a$b", "${x}", "模型"])
def test_a_path_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.touch()
    assert load_config({"model": str(path)}, {}).model == str(path)
    assert load_config({}, {"TRITONE_MODEL": str(path)}).model == str(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file or directory"), (b"a = ", "is not valid TOML"), (b"\xff", "is not valid TOML")],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "config.toml"
    if content is not None:
        path.write_bytes(content)
    assert f"--config: {path}" in error_of({"config": str(path)})
    assert message in error_of({"config": str(path)})


def test_assignments_are_json_or_text() -> None:
    texts = ["a=1", "b=1.5", "c=true", "d=CPU", 'e="1"', "f=", "g=x=y"]
    assert parse_assignments(texts) == {"a": 1, "b": 1.5, "c": True, "d": "CPU", "e": "1", "f": "", "g": "x=y"}


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_an_assignment_without_name_or_value_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="--set: must be NAME=VALUE"):
        parse_assignments([text])


@given(st.integers(1, 65535), st.text(min_size=1, max_size=20).filter(lambda text: "${" not in text))
def test_text_and_toml_give_the_same(port: int, host: str) -> None:
    assert load_config({"http_port": str(port), "host": host}, {}) == Config(http_port=port, host=host)


def test_the_gateway_has_the_same_sources_under_a_prefix_of_its_own(write_toml: Any) -> None:
    file = write_toml("workers = 2\nmax_choices = 2\nmax_prompts = 2\nmetrics = false")
    environment = {
        "TRITONE_HTTP_PORT": "1",
        "TRITONE_API_KEYS": "secret",
        "TRITONE_GATEWAY_PORT": "tcp://10.0.0.1:9000",  # Kubernetes, for a service called tritone-gateway
        "TRITONE_GATEWAY_MAX_CHOICES": "3",
        "TRITONE_GATEWAY_MAX_PROMPTS": "3",
    }
    config = load_gateway({**file, "max_prompts": "4", "port": None}, environment, {"workers": 1, "log_file": "log"})
    assert (config.workers, config.max_choices, config.max_prompts, config.metrics) == (2, 3, 4, False)
    assert (config.port, config.log_file) == (9000, "log")


@pytest.mark.parametrize(
    ("options", "environment", "table", "message"),
    [
        ({"triton": "x"}, {}, {}, "--triton: must be HOST:PORT, got 'x'"),
        (
            {},
            {"TRITONE_GATEWAY_WORKERS": "0"},
            {},
            "TRITONE_GATEWAY_WORKERS: must be greater than or equal to 1, got '0'",
        ),
        ({}, {}, {"worker": 2}, "gateway: worker is unknown (did you mean workers?); known are "),
        (
            {},
            {"TRITONE_GATEWAY_WORKER": "2"},
            {},
            "environment: TRITONE_GATEWAY_WORKER is unknown (did you mean TRITONE_",
        ),
        ({}, {}, {"cors_origins": ["a"]}, "gateway: cors_origins: must be * or origins such as "),
    ],
)
def test_a_bad_value_of_the_gateway(
    options: dict[str, str], environment: dict[str, str], table: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_gateway(options, environment, table)
    assert str(caught.value).startswith(message)


def test_variables_of_the_gateway_are_left_to_it() -> None:
    config = load_config(
        {}, {"TRITONE_GATEWAY_WORKERS": "2", "TRITONE_GATEWAY_HOST": "::", "TRITONE_NO_GATEWAY": "true"}
    )
    assert config == Config(gateway_host="::", no_gateway=True)


def test_the_gateways_table_is_merged_as_the_settings_are(write_toml: Any) -> None:
    file = write_toml("[gateway]\nworkers = 2\nmax_choices = 3")
    config = load_config(file, {"TRITONE_GATEWAY": '{"workers": 4}'})
    assert config.gateway == {"workers": 4, "max_choices": 3}
