from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from build_engines.command import main
from build_engines.gpus import GIB
from tests.unit.build_engines.folders import CONFIGS, toy, write_header

LLAMA = str(CONFIGS / "Llama-3.1-8B-Instruct.json")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["plan", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_plan_is_shown_as_tables(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, LLAMA, "--gpu", "h100")
    assert (status, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "Llama-3.1-8B-Instruct on one h100-80gb (79.6 GiB, SM 90), bfloat16"
    assert "weights 15.0 GiB 8,030,261,248 parameters" in lines
    assert "--max-seq-len 131,072" in lines
    assert "tp 1 tp 2 tp 4 tp 8" in lines
    assert any(line.startswith("KV cache ") and "131,072 bytes a token" in line for line in lines)


def test_a_plan_as_json_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, LLAMA, "--memory", "40GiB", "--sm", "80", "--tp", "2", "--max-model-len", "8192", "--json")
    plan = json.loads(out)
    assert (plan["model"], plan["parameters"], plan["tp"]) == ("Llama-3.1-8B-Instruct", 8_030_261_248, 2)
    assert plan["gpu"] == {"name": "GPU", "memory_bytes": 40 * GIB, "sm": 80}
    assert plan["kv_bytes_per_token"] == 65_536
    assert plan["limits"]["max_seq_len"] == 8192
    parts = plan["memory_bytes"]
    assert parts.pop("total") == sum(parts.values()) == 40 * GIB
    assert {other["quant"] for other in plan["others"]} == {None, "int8_sq", "int8_wo", "int4_awq"}


def test_the_picture_has_every_part_in_its_share(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "memory.svg"
    assert run(capsys, LLAMA, "--gpu", "h100", "--svg", str(file))[0] == 0
    svg = ET.parse(file).getroot()
    space = "{http://www.w3.org/2000/svg}"
    bars = [rect for rect in svg.iter(f"{space}rect") if rect.find(f"{space}title") is not None]
    assert next(bar.findtext(f"{space}title") for bar in bars) == "weights 15.0 GiB"
    assert sum(float(bar.attrib["width"]) for bar in bars) == pytest.approx(760, abs=0.5)
    assert float(bars[0].attrib["width"]) == pytest.approx(760 * 2 * 8_030_261_248 / (81559 * 2**20), abs=0.1)


def test_a_folder_is_read_to_its_weights(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(toy()))
    write_header(folder / "model.safetensors", {"w": ("F16", [1000, 1000], 2_000_000)})
    _, out, _ = run(capsys, str(folder), "--gpu", "l4", "--json")
    assert (json.loads(out)["model"], json.loads(out)["parameters"]) == ("toy", 1_000_000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([LLAMA], "gpu: give --gpu (a10, "),
        ([LLAMA, "--memory", "80GiB"], "gpu: give --gpu (a10, "),
        ([LLAMA, "--gpu", "l4", "--memory", "80GiB"], "gpu: give a name, or --memory and --sm, not both"),
        ([LLAMA, "--memory", "80GiB", "--sm", "9"], "sm: 9 is no compute capability times ten"),
        ([LLAMA, "--gpu", "h100", "--gpus", "0"], "gpus: 0 is not a number of GPUs"),
        ([LLAMA, "--gpu", "h100", "--gpus", "1", "--tp", "2"], "tp: 2 needs as many GPUs, there is 1"),
        (["nowhere", "--gpu", "h100"], "model: nowhere/config.json cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_work_is_said_in_a_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"Error: {message}")
