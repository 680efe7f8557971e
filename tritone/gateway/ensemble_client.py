"""The gateway's way to the ensemble: a `generate_stream` for each answer, and a word to the engine when it is unwanted.

Runs in the gateway. Knows Triton and the names of the contract, and nothing of OpenAI.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp

from ensemble_repo.contract import CONTRACT, FAILURES, TOO_MANY_REQUESTS, UNAVAILABLE

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 1.0
READ_BYTES = 2**18
STOP_PAUSES_S = (0.0, 0.03, 0.25)  # a request that is still being tokenized does not hear the first stop
NO_ROW = 2**32 - 1  # no row of any stream table: postprocess answers, and there is nobody to acknowledge to
FIELDS = {tensor.name for tensor in CONTRACT if tensor.source == "client"}
STATUSES = {400: 400, 404: 404, 429: 429, 503: 503, 504: 504}
FIELD_IN_MESSAGE = re.compile(r"([a-z_]+)([^\s:]*): (.*)", re.DOTALL)
REPLY_PREFIX = re.compile(r"^(?:\[request id: [^\]]*\] |in ensemble '[^']*', )+")


class EnsembleError(Exception):
    """The ensemble refused a request or broke an answer off.

    `field` is the contract's name of what is wrong, None if it is no field; `place` is where in it ("[1].role"), and
    `reason` what the message says of it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.field, self.place, self.reason = _parts(message)
        self.is_overload = status == 503 and message.startswith(TOO_MANY_REQUESTS)


@dataclass(frozen=True, slots=True)
class Event:
    """One response of the ensemble. `num_input_tokens` comes with the first and with the last.

    `logprobs` is a JSON list, where the request asked for it.
    """

    text: str
    num_output_tokens: int
    finish_reason: str | None
    num_input_tokens: int | None
    logprobs: str | None = None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A served ensemble: what clients call it, its context in tokens, and its name in Triton.

    With `parent` it is the ensemble of that name, answering with the LoRA adapter `name`.
    """

    name: str
    max_model_len: int
    triton_name: str
    parent: str | None = None


class EnsembleClient:
    """Connections to the Triton at `url`, http://HOST:PORT. To be opened and closed on a running loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stops: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Be ready to connect; nothing is sent yet."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            read_bufsize=READ_BYTES,
        )

    async def close(self) -> None:
        """End every connection, once the engine has heard of every answer that nobody wants, or does not listen."""
        if self._stops:
            await asyncio.wait(self._stops, timeout=CLOSE_TIMEOUT_S)
        await self._session.close()

    async def generate(
        self, model: str, inputs: Mapping[str, Any], request_id: str, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[list[Event], None]:
        """The answer's events as they come, those that arrive together in one list.

        `request_id` must be unique. Closed early, as by the task's cancellation, it frees the engine at once. Raises
        EnsembleError; before the first list that is a refusal.
        """
        body = {"id": request_id, "stream": True, **inputs}
        is_done = False
        try:
            async with self._post(f"{model}/generate_stream", body, headers) as response:
                async for events in _events(response):
                    is_done = events[-1].finish_reason is not None
                    yield events
            if not is_done:
                raise EnsembleError(500, "the model server ended the answer without saying why")
        except EnsembleError:
            is_done = True
            raise
        finally:
            if not is_done:
                self._free_engine(model, request_id)

    async def tokenize(self, model: str, inputs: Mapping[str, Any]) -> list[int]:
        """The token ids of a prompt, special tokens added as for an answer."""
        return list((await self._prepare(model, inputs))["input_ids"])

    async def detokenize(self, model: str, ids: list[int]) -> str:
        """The text of token ids, special tokens shown."""
        inputs = {"input_ids": ids, "skip_special_tokens": False, "ignore_eos": True, "stream": False}
        context = (await self._prepare(model, inputs))["stream_context"][0]
        chunk = {
            "output_ids": ids,
            "stream_key": [NO_ROW, random.getrandbits(32), 1],
            "stream_context": context,
            "finish_reason": "length",
        }
        async with self._post(f"{model}_postprocess/generate", chunk) as response:
            return str((await response.json())["text_output"])

    async def models(self) -> list[ModelInfo]:
        """The ensembles that are ready, then their LoRA adapters."""
        async with self._post("../repository/index", {}) as response:
            index = await response.json()
        ready = {model["name"] for model in index if model.get("state") == "READY"}
        ensembles = sorted(name for name in ready if f"{name}_preprocess" in ready)
        found = [model for name in ensembles for model in await self._models(name)]
        return sorted(found, key=lambda model: model.parent is not None)

    async def is_ready(self) -> bool:
        """Whether Triton answers and all its models are ready."""
        with suppress(aiohttp.ClientError, asyncio.TimeoutError):
            async with self._session.get(f"{self._url}/v2/health/ready", timeout=_timeout()) as response:
                return response.status == 200
        return False

    async def metrics(self, url: str) -> str:
        """Triton's own metrics, from the address of its metrics port; "" when they cannot be had."""
        with suppress(aiohttp.ClientError, asyncio.TimeoutError):
            async with self._session.get(url, timeout=_timeout()) as response:
                return await response.text()
        return ""

    async def _models(self, triton_name: str) -> list[ModelInfo]:
        """An ensemble and its LoRA adapters."""
        ensemble = await self._parameters(triton_name)
        name = ensemble.get("served_name", triton_name)
        max_model_len = int((await self._parameters(f"{triton_name}_preprocess"))["max_model_len"])
        adapters = json.loads(ensemble.get("lora_names", "[]"))
        base = ModelInfo(name, max_model_len, triton_name)
        return [base, *(ModelInfo(adapter, max_model_len, triton_name, parent=name) for adapter in adapters)]

    async def _parameters(self, model: str) -> dict[str, str]:
        """The parameters in a model's configuration."""
        async with _answered(self._session.get(f"{self._url}/v2/models/{model}/config")) as response:
            parameters = (await response.json()).get("parameters", {})
        return {name: str(parameter["string_value"]) for name, parameter in parameters.items()}

    async def _prepare(self, model: str, inputs: Mapping[str, Any]) -> dict[str, list[Any]]:
        """What preprocess makes of a request, by name."""
        tensors = [_tensor(name, value) for name, value in inputs.items()]
        outputs = [{"name": "input_ids"}, {"name": "stream_context"}]
        async with self._post(f"{model}_preprocess/infer", {"inputs": tensors, "outputs": outputs}) as response:
            reply = await response.json()
        return {output["name"]: output["data"] for output in reply["outputs"]}

    def _post(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return _answered(self._session.post(f"{self._url}/v2/models/{path}", json=body, headers=headers))

    def _free_engine(self, model: str, request_id: str) -> None:
        task = asyncio.get_running_loop().create_task(self._stop(model, request_id))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    async def _stop(self, model: str, request_id: str) -> None:
        for pause_s in STOP_PAUSES_S:
            await asyncio.sleep(pause_s)
            with suppress(EnsembleError):  # the ensemble notices by itself in the end
                async with self._post(f"{model}_engine/generate_stream", {"id": request_id, "stop": True}):
                    pass


@asynccontextmanager
async def _answered(
    request: AbstractAsyncContextManager[aiohttp.ClientResponse],
) -> AsyncIterator[aiohttp.ClientResponse]:
    """A reply with status 200; raises EnsembleError for any other, and when there is none."""
    try:
        async with request as response:
            if response.status != 200:
                raise _error(response.status, await response.text())
            yield response
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise EnsembleError(503, "the model server cannot be reached") from error
    except (aiohttp.ClientError, asyncio.TimeoutError) as error:
        raise EnsembleError(500, "the model server broke the connection off") from error


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[list[Event]]:
    """The events of a `text/event-stream` body, those of one read in one list."""
    rest = b""
    while block := await response.content.readany():
        *whole, rest = (rest + block).split(b"\n\n")
        replies = [json.loads(event[6:]) for event in whole if event.startswith(b"data: ")]
        events = [_event(reply) for reply in replies if "error" not in reply]
        if events:
            yield events
        for reply in replies:
            if "error" in reply:
                raise _error(500, json.dumps(reply))


def _event(reply: Mapping[str, Any]) -> Event:
    return Event(
        reply["text_output"],
        reply["num_output_tokens"],
        reply.get("finish_reason"),
        reply.get("num_input_tokens"),
        reply.get("logprobs"),
    )


def _error(status: int, text: str) -> EnsembleError:
    """Triton's error in a body that is JSON, or one event that holds it."""
    try:
        message = str(json.loads(text.strip().removeprefix("data: "))["error"])
    except (ValueError, KeyError, TypeError):
        message = "the model server gave no reason"
    message = REPLY_PREFIX.sub("", message)
    return EnsembleError(_status(status, message), message)


def _status(status: int, message: str) -> int:
    """Triton's `generate` says 400 whatever a stage said, and nothing within a stream, so the message tells."""
    if message.startswith(UNAVAILABLE):
        return 503
    if message.startswith(FAILURES):
        return 500
    field, _, _ = _parts(message)
    return 400 if field else STATUSES.get(status, 500)


def _parts(message: str) -> tuple[str | None, str, str]:
    """The contract's field that a message begins with, the place within it, and the rest."""
    match = FIELD_IN_MESSAGE.fullmatch(message)
    return (match[1], match[2], match[3]) if match and match[1] in FIELDS else (None, "", message)


def _tensor(name: str, value: Any) -> dict[str, Any]:
    """An input of Triton's `infer`, [1, n]."""
    (dtype,) = {tensor.dtype for tensor in CONTRACT if (tensor.name, tensor.source) == (name, "client")}
    values = value if isinstance(value, list) else [value]
    return {"name": name, "datatype": dtype.replace("STRING", "BYTES"), "shape": [1, len(values)], "data": values}


def _timeout() -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=CALL_TIMEOUT_S)
