"""The load generator's way over Triton's gRPC streaming: one bidirectional stream a request. Runs on the load host."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import tritonclient.grpc.aio as triton
from tritonclient.utils import InferenceServerException

from perf.load.events import CountTokens
from perf.load.fronts import Target
from perf.load.grpc_tensors import error_code, events_of, input_tensors, is_last
from perf.load.notes import Notes
from perf.load.record import LoadRecord
from perf.load.request import LoadRequest
from tritone.errors import TritoneError


@asynccontextmanager
async def grpc_client(target: Target, count_tokens: CountTokens | None) -> AsyncIterator[GrpcClient]:
    """A client of the model; it is asked for its inputs first. Raises TritoneError where that fails."""
    client = triton.InferenceServerClient(target.url)
    try:
        metadata = await client.get_model_metadata(target.model, headers=dict(target.headers))
    except InferenceServerException as error:
        await client.close()
        raise TritoneError(f"{target.url}: {error.message()}") from error
    try:
        yield GrpcClient(client, target, {one.name: one for one in metadata.inputs}, count_tokens)
    finally:
        await client.close()


class GrpcClient:
    """Requests as tensors of the types that the model has for them."""

    def __init__(
        self, client: Any, target: Target, inputs: Mapping[str, Any], count_tokens: CountTokens | None
    ) -> None:
        self._client = client
        self._target = target
        self._inputs = inputs
        self._count_tokens = count_tokens

    async def send(self, request: LoadRequest, due_ns: int | None) -> LoadRecord:
        """See Client."""
        ask = {
            "model_name": self._target.model,
            "inputs": input_tensors(self._target, self._inputs, request),
            "enable_empty_final_response": True,
        }
        notes = Notes(due_ns)
        results: list[Any] = []
        try:
            replies = await self._stream(ask)
            async for result, error in replies:
                if error is not None:
                    message = str(error.message())
                    if not results:
                        return notes.failed("refused", message[:300])
                    return notes.failed("error event", message[:300], events_of(results))
                notes.add([b""])
                results.append(result)
                if is_last(result):
                    replies.cancel()  # it would wait for another request
                    break
        except (grpc.RpcError, InferenceServerException) as error:
            kind = "timeout" if error_code(error) == "DEADLINE_EXCEEDED" else "broken off" if results else "refused"
            return notes.failed(kind, f"gRPC {error_code(error)}", events_of(results))
        return notes.record(events_of(results), self._count_tokens)

    async def _stream(self, ask: dict[str, Any]) -> Any:
        async def requests() -> AsyncIterator[dict[str, Any]]:
            yield ask

        return self._client.stream_infer(
            requests(), stream_timeout=self._target.timeout_s, headers=dict(self._target.headers)
        )
