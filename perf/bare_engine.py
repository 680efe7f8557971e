"""OpenVINO GenAI's own loop without anything around it, in a process of its own: what the ensemble is measured by.

Runs on the load host. It reads nothing until the last token is there, which no server could afford, so what is
compared with it looks worse rather than better.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from perf.records import RequestRecord
from tritone.errors import TritoneError

READY_TIMEOUT_S = 300.0
BURST_TIMEOUT_S = 600.0


class BareEngineError(TritoneError):
    """The process of the bare engine has ended, or does not answer."""


class BareEngine:
    """The parent's end. Between bursts the process waits for the next and uses no CPU."""

    def __init__(self, pid: int, connection: Connection) -> None:
        self.pid = pid
        self._connection = connection

    def burst(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[RequestRecord]:
        """Send all prompts at once and have `tokens` made for each. Times are the system clock's. BareEngineError."""
        self._connection.send((prompts, tokens))
        records: list[RequestRecord] = self.receive(BURST_TIMEOUT_S)
        return records

    def receive(self, timeout_s: float) -> Any:
        """What the process has to say. Raises BareEngineError."""
        try:
            if self._connection.poll(timeout_s):
                return self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise BareEngineError("the process of the bare engine has ended; its reason is above") from error
        raise BareEngineError(f"the bare engine did not answer within {timeout_s:g} s")


@contextmanager
def bare_engine(settings: Mapping[str, Any]) -> Iterator[BareEngine]:
    """An engine that is loaded, with the settings of the openvino adapter. Raises BareEngineError."""
    context = multiprocessing.get_context("spawn")  # a fresh interpreter: its memory is the engine's alone
    connection, far_end = context.Pipe()
    process = context.Process(target=_serve, args=(far_end, dict(settings)), daemon=True)
    process.start()
    far_end.close()
    engine = BareEngine(process.pid or 0, connection)
    try:
        engine.receive(READY_TIMEOUT_S)
        yield engine
    finally:
        connection.close()
        process.terminate()
        process.join()


def _serve(connection: Connection, settings: Mapping[str, Any]) -> None:
    from engine.openvino_adapter import load_pipeline  # it imports OpenVINO, which only this process needs

    pipeline = load_pipeline(**settings)
    connection.send("ready")
    while True:
        try:
            prompts, tokens = connection.recv()
        except EOFError:
            return
        connection.send(_burst(pipeline, prompts, tokens))


def _burst(pipeline: Any, prompts: Sequence[Sequence[int]], tokens: int) -> list[RequestRecord]:
    import numpy as np
    import openvino

    config = _greedy(tokens)
    started_ns = time.time_ns()
    handles = [
        pipeline.add_request(number, openvino.Tensor(np.array([prompt], np.int64)), config)
        for number, prompt in enumerate(prompts)
    ]
    while pipeline.has_non_finished_requests():
        pipeline.step()
    ended_ns = time.time_ns()
    return [RequestRecord(started_ns, (ended_ns,), (_count(handle),)) for handle in handles]


def _greedy(tokens: int) -> Any:
    import openvino_genai

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
