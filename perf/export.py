"""Reads what perf_analyzer writes with --profile-export-file. Runs on the load host."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from perf.records import RequestRecord
from tritone.errors import TritoneError

Outputs = Sequence[Mapping[str, Any]]
TokenCount = Callable[[Outputs], list[int]]
"""New tokens in each response of one request, from the responses' outputs."""


class ExportError(TritoneError):
    """The export does not hold the requests that were ordered, whole."""


def read_export(path: Path, count_tokens: TokenCount, requests: int) -> list[RequestRecord]:
    """The requests of the one experiment in the export, in the order of the file. Times are the system clock's.

    Raises ExportError unless there are `requests` of them and each got the `max_tokens` tokens it asked for.
    """
    try:
        experiments = json.loads(path.read_text("utf-8"))["experiments"]
    except ValueError as error:
        raise ExportError(f"perf_analyzer's export is not whole JSON: {error}") from error
    entries = [entry for experiment in experiments for entry in experiment["requests"]]
    if len(entries) != requests:
        raise ExportError(f"perf_analyzer exported {len(entries)} requests, not {requests}")
    return [_record(entry, count_tokens) for entry in entries]


def cumulative(outputs: Outputs) -> list[int]:
    """From `num_output_tokens`, which counts the tokens so far."""
    counts = [0, *(output["num_output_tokens"] for output in outputs)]
    return [later - earlier for earlier, later in pairwise(counts)]


def one_each(outputs: Outputs) -> list[int]:
    """One token in each response: what TensorRT-LLM sends to a streaming request."""
    return [1] * len(outputs)


def _record(entry: Mapping[str, Any], count_tokens: TokenCount) -> RequestRecord:
    pairs = zip(entry["response_timestamps"], entry["response_outputs"], strict=True)
    responses = [(time_ns, outputs) for time_ns, outputs in pairs if outputs]  # a lone final flag brings nothing
    tokens = count_tokens([outputs for _, outputs in responses])
    wanted = entry["request_inputs"]["max_tokens"]
    if sum(tokens) != wanted:
        raise ExportError(f"a request asked for {wanted} tokens and got {sum(tokens)} in {len(tokens)} responses")
    return RequestRecord(entry["timestamp"], tuple(time_ns for time_ns, _ in responses), tuple(tokens))
