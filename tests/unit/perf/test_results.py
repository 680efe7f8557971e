"""The result folder keeps raw samples as they come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf import results
from perf.records import CpuSample, RequestRecord
from perf.results import ResultFolder
from perf.tables import Table
from tritone.errors import TritoneError

ENVIRONMENT = {
    "command": ["perf", "load"],
    "verb": "load",
    "cpu": "A CPU",
    "cores": 2,
    "triton": "2.51.0",
    "python": "3.11.7",
    "commit": "0123456789abcdef",
    "changed_files": "",
    "engine_packages": {},
}
ONE_LINE = "A CPU, 2 cores, Triton 2.51.0, Python 3.11.7, commit 0123456789ab"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        results, "describe_environment", lambda seed, engine_python, has_triton: {**ENVIRONMENT, "seed": seed}
    )


def test_files(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "results" / "x", 7)
    shown: list[str] = []
    for number in (1, 2):
        folder.add_requests({"round": number}, [RequestRecord(5, (6, 7), (1, 2))])
    folder.add_cpu_samples({"round": 1}, {"engine": [CpuSample(8, 0.5)]})
    folder.finish({"figure": 1}, [Table("T", ["a"], [[1]])], shown.append)
    lines = [json.loads(line) for line in (folder.path / "requests.jsonl").read_text().splitlines()]
    assert lines == [{"round": number, "started_ns": 5, "received_ns": [6, 7], "tokens": [1, 2]} for number in (1, 2)]
    assert json.loads((folder.path / "processes.jsonl").read_text()) == {
        "round": 1,
        "process": "engine",
        "time_ns": 8,
        "cpu_s": 0.5,
    }
    assert json.loads((folder.path / "environment.json").read_text()) == {**ENVIRONMENT, "seed": 7}
    assert json.loads((folder.path / "summary.json").read_text()) == {"figure": 1}
    assert (folder.path / "table.md").read_text() == f"{ONE_LINE}\n\n## T\n\n| a |\n| --- |\n| 1 |\n"
    assert "<h2>T</h2>" in (folder.path / "report.html").read_text()
    assert shown == [
        "\nT\na\n1",
        f"\n{ONE_LINE}\nReport: {folder.path / 'report.html'}\nRaw samples: {folder.path}",
    ]


def test_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(TritoneError, match="is not empty"):
        ResultFolder(tmp_path, 0)
    with pytest.raises(TritoneError, match="cannot be made"):
        ResultFolder(tmp_path / "summary.json", 0)
