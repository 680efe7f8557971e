"""The load generator's way over Triton's gRPC streaming: one bidirectional stream a request. Runs on the load host."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
import tritonclient.grpc.aio as triton
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from perf.load.client import Notes
from perf.load.events import CountTokens, Event, outputs_event
from perf.load.fronts import Target, generate_body
from perf.load.record import LoadRecord
from perf.load.request import LoadRequest
from tritone.errors import TritoneError

READ = ("text_output", "num_output_tokens", "num_input_tokens", "finish_reason")


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
            "inputs": [self._tensor(name, value) for name, value in generate_body(self._target, request).items()],
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
                    return notes.failed("error event", message[:300], _events(results))
                notes.add([b""])
                results.append(result)
                if _is_last(result):
                    replies.cancel()  # it would wait for another request
                    break
        except (grpc.RpcError, InferenceServerException) as error:
            kind = "timeout" if _code(error) == "DEADLINE_EXCEEDED" else "broken off" if results else "refused"
            return notes.failed(kind, f"gRPC {_code(error)}", _events(results))
        return notes.record(_events(results), self._count_tokens)

    async def _stream(self, ask: dict[str, Any]) -> Any:
        async def requests() -> AsyncIterator[dict[str, Any]]:
            yield ask

        return self._client.stream_infer(
            requests(), stream_timeout=self._target.timeout_s, headers=dict(self._target.headers)
        )

    def _tensor(self, name: str, value: Any) -> Any:
        declared = self._inputs.get(name)
        if declared is None:
            raise TritoneError(f"the model {self._target.model} has no input {name}; it has {', '.join(self._inputs)}")
        values = [value] if isinstance(value, str | bytes) or not isinstance(value, list | tuple) else list(value)
        if declared.datatype == "BYTES":
            values = [one.encode() if isinstance(one, str) else one for one in values]
        array = np.array(values, triton_to_np_dtype(declared.datatype))
        tensor = triton.InferInput(name, [1] * (len(declared.shape) - 1) + [len(values)], declared.datatype)
        tensor.set_data_from_numpy(array.reshape(tensor.shape()))
        return tensor


def _events(results: list[Any]) -> list[Event]:
    return [outputs_event({name: _value(result, name) for name in READ if _has(result, name)}) for result in results]


def _has(result: Any, name: str) -> bool:
    return any(output.name == name for output in result.get_response().outputs)


def _value(result: Any, name: str) -> Any:
    array = result.as_numpy(name)
    if array is None or not array.size:
        return None
    value = array.ravel()[0]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value.item()


def _is_last(result: Any) -> bool:
    final = result.get_response().parameters.get("triton_final_response")
    return bool(final and final.bool_param)


def _code(error: Any) -> str:
    code = error.code() if isinstance(error, grpc.RpcError) else error.status()
    return str(getattr(code, "name", code)).removeprefix("StatusCode.")
