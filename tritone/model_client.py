"""Streams answers from a served ensemble over gRPC, and frees the engine at once when nobody wants the rest.

Runs in our process, for `tritone ask` and `tritone chat`.
"""

from __future__ import annotations

import json
import queue
import re
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tritone.errors import TritoneError

Message = Mapping[str, str]

_IN_ENSEMBLE = re.compile(r"^in ensemble '[^']*', ")
_STOP_TIMEOUT_S = 2.0
_DTYPES = {"messages": "BYTES", "max_tokens": "INT32", "temperature": "FP32", "stop": "BOOL"}


class ChatError(TritoneError):
    """The server cannot be reached, or has refused or broken off an answer."""


class ModelClient:
    """A connection to the server at `url`, HOST:PORT of its gRPC. One answer at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = triton.InferenceServerClient(url)

    def close(self) -> None:
        """End the connection. Left to the end of the interpreter, grpc may wait for a thread that is no more."""
        self._client.close()

    def only_model(self) -> str:
        """The name of the one ensemble that is served. Raises ChatError if there is none or a choice."""
        with self._explained():
            index = self._client.get_model_repository_index().models
            ready = [str(model.name) for model in index if model.state == "READY"]
            ensembles = [name for name in ready if self._is_ensemble(name)]
        if len(ensembles) == 1:
            return ensembles[0]
        if not ensembles:
            raise ChatError(
                f"the server at {self._url} has no ensemble that is ready; it has {', '.join(ready) or 'none'}"
            )
        raise ChatError(
            f"the server at {self._url} has several models, choose one with --model: {', '.join(ensembles)}"
        )

    def answer(self, model: str, messages: Sequence[Message], **parameters: Any) -> Generator[str, None, None]:
        """The answer to `messages`, text as it comes. Parameters that are None are left to the model.

        To close the iterator early, as an exception in it does, cancels the answer. Raises ChatError.
        """
        request_id = uuid.uuid4().hex
        inputs = {"messages": json.dumps(list(messages)).encode(), **parameters}
        is_running = True
        try:
            replies = self._start(model, inputs, request_id)
            while is_running:
                reply = replies.get()
                is_running = _has_more(reply)
                with self._explained():
                    text = _text(reply)
                yield text
        finally:
            self._client.stop_stream(cancel_requests=True)  # an ended stream would be waited for, at times for ever
            if is_running:
                self._free_engine(model, request_id)

    def _start(self, model: str, inputs: Mapping[str, Any], request_id: str) -> queue.SimpleQueue[Any]:
        replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._client.start_stream(lambda result, error: replies.put(error or result))
        tensors = [_tensor(name, value) for name, value in inputs.items() if value is not None]
        with suppress(InferenceServerException):  # a stream that has broken already has put its error among the replies
            self._client.async_stream_infer(model, tensors, request_id=request_id, enable_empty_final_response=True)
        return replies

    def _free_engine(self, model: str, request_id: str) -> None:
        """Triton tells a running engine nothing of a client that left, so tell it by the request's id."""
        with suppress(InferenceServerException, queue.Empty):  # it notices by itself in the end
            try:
                self._start(f"{model}_engine", {"stop": True}, request_id).get(timeout=_STOP_TIMEOUT_S)
            finally:
                self._client.stop_stream(cancel_requests=True)

    def _is_ensemble(self, model: str) -> bool:
        return bool(self._client.get_model_config(model).config.platform == "ensemble")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except InferenceServerException as error:
            if "UNAVAILABLE" in str(error.status()):
                raise ChatError(
                    f"no server answers at {self._url} (any more): start one with `tritone serve`"
                ) from error
            raise ChatError(_IN_ENSEMBLE.sub("", str(error.message()))) from error


def _has_more(reply: Any) -> bool:
    """Whether another reply follows this one; none does after an error."""
    if isinstance(reply, InferenceServerException):
        return False
    final = reply.get_response().parameters.get("triton_final_response")
    return not (final and final.bool_param)


def _text(reply: Any) -> str:
    """A reply's text; the error that it is instead is raised."""
    if isinstance(reply, InferenceServerException):
        raise reply
    text = reply.as_numpy("text_output")
    return "" if text is None else text.ravel()[0].decode("utf-8")


def _tensor(name: str, value: Any) -> Any:
    dtype = _DTYPES[name]
    tensor = triton.InferInput(name, [1, 1], dtype)
    kinds = {"BYTES": np.object_, "INT32": np.int32, "FP32": np.float32, "BOOL": np.bool_}
    tensor.set_data_from_numpy(np.array([[value]], kinds[dtype]))
    return tensor
