"""perf_analyzer's export becomes whole requests, or an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perf.export import ExportError, cumulative, one_each, read_export
from perf.records import RequestRecord


def entry(max_tokens: int, *responses: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    """A request as perf_analyzer writes it."""
    return {
        "timestamp": 1000,
        "request_inputs": {"text_input": "x", "max_tokens": max_tokens},
        "response_timestamps": [time_ns for time_ns, _ in responses],
        "response_outputs": [outputs for _, outputs in responses],
    }


def export(folder: Path, *entries: dict[str, Any]) -> Path:
    path = folder / "export.json"
    path.write_text(json.dumps({"experiments": [{"experiment": {"mode": "concurrency"}, "requests": entries}]}))
    return path


def test_counts_so_far_become_new_tokens(tmp_path: Path) -> None:
    path = export(tmp_path, entry(7, (1100, {"num_output_tokens": 3}), (1200, {"num_output_tokens": 7})))
    assert read_export(path, cumulative, 1) == [RequestRecord(1000, (1100, 1200), (3, 4))]


def test_one_token_in_each_response(tmp_path: Path) -> None:
    path = export(tmp_path, entry(2, (1100, {"text_output": "a"}), (1200, {"text_output": ""})))
    assert read_export(path, one_each, 1) == [RequestRecord(1000, (1100, 1200), (1, 1))]


def test_final_flag_that_comes_alone_is_no_response(tmp_path: Path) -> None:
    path = export(tmp_path, entry(1, (1100, {"text_output": "a"}), (1200, {})))
    assert read_export(path, one_each, 1) == [RequestRecord(1000, (1100,), (1,))]


def test_answer_cut_short_is_refused(tmp_path: Path) -> None:
    path = export(tmp_path, entry(9, (1100, {"num_output_tokens": 3})))
    with pytest.raises(ExportError, match="asked for 9 tokens and got 3 in 1 responses"):
        read_export(path, cumulative, 1)


def test_missing_request_is_refused(tmp_path: Path) -> None:
    path = export(tmp_path, entry(3, (1100, {"num_output_tokens": 3})))
    with pytest.raises(ExportError, match="exported 1 requests, not 2"):
        read_export(path, cumulative, 2)


def test_export_that_is_cut_off_says_so(tmp_path: Path) -> None:
    export = tmp_path / "export.json"
    export.write_text('{"experiments": [{"requests": [{"response_outputs": [{"text_output": "a')
    with pytest.raises(ExportError, match="not whole JSON"):
        read_export(export, cumulative, 1)
