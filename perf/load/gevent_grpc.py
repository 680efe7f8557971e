"""The load generator's way over Triton's gRPC streaming for locust's users, each a greenlet.

Runs in locust's process, on the load host. gRPC must have been told of gevent before: `grpc.experimental.gevent`.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import Any

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from perf.load.events import CountTokens
from perf.load.fronts import Target
from perf.load.grpc_tensors import error_code, events_of, input_tensors, is_last
from perf.load.notes import Notes
from perf.load.record import LoadRecord
from perf.load.request import LoadRequest
from tritone.errors import TritoneError


class GeventGrpc:
    """A user's channel; each request has a stream of its own. Raises TritoneError where the model does not answer."""

    def __init__(self, target: Target, count_tokens: CountTokens | None) -> None:
        self._target = target
        self._count_tokens = count_tokens
        self._client = triton.InferenceServerClient(target.url)
        try:
            metadata = self._client.get_model_metadata(target.model, headers=dict(target.headers))
        except InferenceServerException as error:
            self._client.close()
            raise TritoneError(f"{target.url}: {error.message()}") from error
        self._inputs = {one.name: one for one in metadata.inputs}

    def send(self, request: LoadRequest) -> LoadRecord:
        """Ask, read the answer to its end, and tell what happened; what goes wrong is in the record."""
        replies: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        notes = Notes(None)
        self._client.start_stream(
            lambda result, error: replies.put((result, error)),
            stream_timeout=self._target.timeout_s,
            headers=dict(self._target.headers),
        )
        try:
            self._client.async_stream_infer(
                self._target.model,
                input_tensors(self._target, self._inputs, request),
                enable_empty_final_response=True,
            )
            return self._read(replies, notes)
        finally:
            self._client.stop_stream(cancel_requests=True)

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def _read(self, replies: SimpleQueue[tuple[Any, Any]], notes: Notes) -> LoadRecord:
        results: list[Any] = []
        while True:
            try:
                result, error = replies.get(timeout=self._target.timeout_s)
            except Empty:
                return notes.failed("timeout", f"nothing within {self._target.timeout_s:g} s", events_of(results))
            if error is not None:
                return notes.failed(*_failure(error, bool(results)), events_of(results))
            notes.add([b""])
            results.append(result)
            if is_last(result):
                return notes.record(events_of(results), self._count_tokens)


def _failure(error: InferenceServerException, has_begun: bool) -> tuple[str, str]:
    code = error_code(error)
    if code == "None":  # an error of the model, within the stream
        return "error event" if has_begun else "refused", str(error.message())[:300]
    kind = "timeout" if code == "DEADLINE_EXCEEDED" else "broken off" if has_begun else "refused"
    return kind, f"gRPC {code}"
