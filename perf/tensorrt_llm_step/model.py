"""Triton's calls into a stand-in for NVIDIA's `tensorrt_llm` step, and its calls into Triton. Nothing else lives here.

Like the real one it answers a streaming request with one response for each token, whatever became of the last one.
"""

from __future__ import annotations

import itertools
import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from .adapter import TokenDelta
from .request_tensors import engine_request
from .scripted_adapter import ScriptedAdapter

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
POLL_S = 0.05


class TritonPythonModel:
    """The scripted engine and the thread that sends what it makes."""

    def initialize(self, args: dict[str, str]) -> None:
        """Start the engine with the settings that lie beside this file."""
        self._adapter = ScriptedAdapter(**json.loads((Path(__file__).parent / "settings.json").read_text("ascii")))
        self._adapter.start()
        self._senders: dict[int, Any] = {}
        self._keys = itertools.count(1)
        self._is_running = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def execute(self, requests: list[Any]) -> None:
        """Hand each request to the engine."""
        for request in requests:
            key = next(self._keys)
            self._senders[key] = request.get_response_sender()
            self._adapter.submit(engine_request(key, partial(read_tensor, request)))

    def finalize(self) -> None:
        """End the thread and the engine."""
        self._is_running = False
        self._thread.join()
        self._adapter.stop()

    def _run(self) -> None:
        while self._is_running:
            for delta in self._adapter.take(POLL_S):
                self._send(delta)

    def _send(self, delta: TokenDelta) -> None:
        sender = self._senders.pop(delta.key) if delta.finish_reason else self._senders[delta.key]
        for number, token in enumerate(delta.ids, 1):
            is_last = bool(delta.finish_reason) and number == len(delta.ids)
            sender.send(pb_utils.InferenceResponse(to_tensors(token)), flags=FINAL if is_last else 0)


def read_tensor(request: Any, name: str) -> Any:
    """An input as numpy array, or None when it is absent."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()


def to_tensors(token: int) -> list[Any]:
    """output_ids INT32 [1, 1 beam, 1] and sequence_length INT32 [1, 1 beam]."""
    return [
        pb_utils.Tensor("output_ids", np.array([[[token]]], np.int32)),
        pb_utils.Tensor("sequence_length", np.array([[1]], np.int32)),
    ]
