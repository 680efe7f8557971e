"""The ensemble over gRPC streaming, typed by the contract, and the raw wire for what no client library would send."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import triton_to_np_dtype

from ensemble_repo.contract import CONTRACT

DTYPES = {tensor.name: tensor.dtype.replace("STRING", "BYTES") for tensor in CONTRACT if tensor.source == "client"}
TIMEOUT_S = 30.0


class Stream:
    """One request on a stream of its own. Iterate for the responses; `cancel` leaves at once."""

    def __init__(self, address: str, model: str, request_id: str = "", **inputs: Any) -> None:
        self._client = triton.InferenceServerClient(address)
        self._replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._client.start_stream(lambda result, error: self._replies.put(error or result))
        tensors = [as_tensor(name, value) for name, value in inputs.items()]
        self._client.async_stream_infer(model, tensors, request_id=request_id, enable_empty_final_response=True)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Outputs by name; raises InferenceServerException for an error. Ends with the final response."""
        while True:
            reply = self._replies.get(timeout=TIMEOUT_S)
            if isinstance(reply, Exception):
                self._client.stop_stream()
                raise reply
            outputs = {output.name: as_value(reply.as_numpy(output.name)) for output in reply.get_response().outputs}
            if outputs:
                yield outputs
            if reply.get_response().parameters["triton_final_response"].bool_param:
                self._client.stop_stream()
                return

    def cancel(self) -> None:
        """Cancel the request and close the stream."""
        self._client.stop_stream(cancel_requests=True)
        self._client.close()

    def half_close(self) -> None:
        """Say that no more requests will come, and read on."""
        self._client._stream._enqueue_request(None)


def as_tensor(name: str, value: Any) -> triton.InferInput:
    """A client's value as input [1, n]."""
    dtype = DTYPES[name]
    values = value if isinstance(value, list) else [value]
    texts = [item.encode() if isinstance(item, str) else item for item in values]
    array = np.array([texts], np.object_ if dtype == "BYTES" else triton_to_np_dtype(dtype))
    tensor = triton.InferInput(name, list(array.shape), dtype)
    tensor.set_data_from_numpy(array)
    return tensor


def as_value(array: np.ndarray[Any, Any]) -> Any:
    """The one element of an output, text decoded."""
    (value,) = array.ravel().tolist()
    return value.decode() if isinstance(value, bytes) else value


def text_of(responses: list[dict[str, Any]]) -> str:
    """The deltas joined."""
    return "".join(response["text_output"] for response in responses)
