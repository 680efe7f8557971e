"""A gRPC streaming client for single requests, which warm a server up before perf_analyzer measures it.

Runs on the load host.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient

from perf.export import TokenCount
from perf.records import RequestRecord
from tritone.errors import TritoneError

DTYPES = {str: "BYTES", bool: "BOOL", int: "INT32", float: "FP32"}
TIMEOUT_S = 30.0


class RequestError(TritoneError):
    """The server answered a request with an error, or not at all."""


class StreamClient:
    """One gRPC stream to `model`, one request at a time. Times are nanoseconds of the monotonic clock."""

    def __init__(self, url: str, model: str, count_tokens: TokenCount) -> None:
        self._client = grpcclient.InferenceServerClient(url)
        self._model = model
        self._count_tokens = count_tokens
        self._received: queue.SimpleQueue[tuple[int, Any, Any]] = queue.SimpleQueue()

    def __enter__(self) -> StreamClient:
        self._client.start_stream(self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.stop_stream(cancel_requests=error is not None)
        self._client.close()

    def request(self, inputs: Mapping[str, Any]) -> RequestRecord:
        """Send a request and wait for its last response. Raises RequestError."""
        tensors = [_tensor(name, values) for name, values in inputs.items()]
        started_ns = time.monotonic_ns()
        self._client.async_stream_infer(self._model, tensors, enable_empty_final_response=True)
        received_ns: list[int] = []
        outputs: list[dict[str, Any]] = []
        is_last = False
        while not is_last:
            time_ns, response, is_last = self._next()
            if response.outputs:
                received_ns.append(time_ns)
                outputs.append(_values(response))
        return RequestRecord(started_ns, tuple(received_ns), tuple(self._count_tokens(outputs)))

    def _receive(self, result: Any, error: Any) -> None:
        self._received.put((time.monotonic_ns(), result, error))

    def _next(self) -> tuple[int, Any, bool]:
        try:
            time_ns, result, error = self._received.get(timeout=TIMEOUT_S)
        except queue.Empty:
            raise RequestError(f"no response within {TIMEOUT_S:g} s") from None
        if error is not None:
            raise RequestError(str(error))
        response = result.get_response()
        return time_ns, response, response.parameters["triton_final_response"].bool_param


def _tensor(name: str, values: list[Any]) -> Any:
    dtype = DTYPES[type(values[0])]
    tensor = grpcclient.InferInput(name, [1, len(values)], dtype)
    array = np.array([values], np.object_) if dtype == "BYTES" else np.array([values])
    tensor.set_data_from_numpy(array.astype({"INT32": np.int32, "FP32": np.float32}.get(dtype, array.dtype)))
    return tensor


def _values(response: Any) -> dict[str, Any]:
    """The outputs that token counts are made from: those of one INT32, which comes as four bytes."""
    pairs = zip(response.outputs, response.raw_output_contents, strict=True)
    return {
        output.name: int.from_bytes(raw, "little", signed=True) if output.datatype == "INT32" else None
        for output, raw in pairs
    }
