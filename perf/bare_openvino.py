"""OpenVINO GenAI's own loop. Runs in the process of the bare engine.

It reads nothing until the last token is there, which no server could afford, so what is compared with it looks worse
rather than better.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino
import openvino_genai

from engine.openvino_adapter import load_pipeline
from perf.records import RequestRecord


class OpenVinoLoop:
    """The pipeline that the adapter runs."""

    def __init__(self, **settings: Any) -> None:
        self._pipeline = load_pipeline(**settings)

    def burst(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[RequestRecord]:
        """See BareLoop."""
        config = _greedy(tokens)
        started_ns = time.time_ns()
        handles = [
            self._pipeline.add_request(number, openvino.Tensor(np.array([prompt], np.int64)), config)
            for number, prompt in enumerate(prompts)
        ]
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        ended_ns = time.time_ns()
        return [RequestRecord(started_ns, (ended_ns,), (_count(handle),)) for handle in handles]

    def close(self) -> None:
        """See BareLoop: it has no other process."""


def _greedy(tokens: int) -> Any:
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = tokens
    config.ignore_eos = True
    config.do_sample = False
    return config


def _count(handle: Any) -> int:
    count = 0
    while handle.can_read():
        count += sum(len(output.generated_ids) for output in handle.read().values())
    return count
