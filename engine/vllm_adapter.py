"""vLLM behind the adapter: the alternate engine on a GPU, and for comparison on a CPU.

Runs in the engine stage. vLLM's AsyncLLM lives on an event loop in a thread of its own and computes in processes of its
own; ids go in and come out, and no text is made there.
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import json
import logging
import os
import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from .vllm_environment import QUIET, SHARED_CPU

os.environ.update({**QUIET, **SHARED_CPU, **os.environ})  # read when vLLM is imported

import psutil
import vllm
from pydantic import ValidationError
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.exceptions import VLLMClientError
from vllm.logprobs import Logprob
from vllm.lora.request import LoRARequest
from vllm.outputs import CompletionOutput
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.metrics.loggers import StatLoggerBase, StatLoggerFactory
from vllm.v1.metrics.stats import SchedulerStats

from .adapter import EngineDiedError, EngineRequest, Load, RefusedError, TokenDelta, TokenLogprob, cores_for_chunks
from .child_watch import ChildWatch

logger = logging.getLogger(__name__)

DIED = "vLLM's engine process has died"
GIB = 1 << 30
ALWAYS = {"generation_config": "vllm", "disable_log_stats": True}
"""What is the same for every model: defaults were filled in before, and figures are kept rather than logged."""


class VllmAdapter:
    """Runs an AsyncLLM with what `make_engine_args` makes of its settings."""

    def __init__(
        self,
        *,
        lora_modules: Mapping[str, str],
        streaming_cpu_share: float,
        **settings: Any,
    ) -> None:
        self.streaming_cores = cores_for_chunks(streaming_cpu_share, is_on_cpu=current_platform.is_cpu())
        self._loras = {
            name: LoRARequest(name, number, path) for number, (name, path) in enumerate(lora_modules.items(), 1)
        }
        self._args = make_engine_args(lora_modules=lora_modules, **settings)
        self._deltas: queue.SimpleQueue[TokenDelta] = queue.SimpleQueue()
        self._answers: dict[int, asyncio.Task[None]] = {}
        self._stats = SchedulerStats()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)

    def start(self) -> None:
        self._thread.start()
        try:
            self._engine = asyncio.run_coroutine_threadsafe(self._make_engine(), self._loop).result()
        except Exception as error:
            self._end_loop()
            raise RuntimeError(f"vLLM {vllm.__version__} did not start: {first_reason(error)}") from error
        self._watch = ChildWatch([child.pid for child in psutil.Process().children(recursive=True)])

    def submit(self, request: EngineRequest) -> None:
        params = sampling_params(request)
        lora = self._loras.get(request.lora_name)
        if request.lora_name and not lora:
            known = ", ".join(self._loras) or "none (see the setting lora_modules)"
            raise RefusedError(f"lora_name: got {request.lora_name!r}, known are {known}")
        self._loop.call_soon_threadsafe(self._begin, request, params, lora)

    def abort(self, key: int) -> None:
        self._loop.call_soon_threadsafe(self._cancel, key)

    def take(self, timeout_s: float) -> list[TokenDelta]:
        deltas = []
        try:
            deltas.append(self._deltas.get(timeout=timeout_s))
            while True:
                deltas.append(self._deltas.get_nowait())
        except queue.Empty:
            pass
        if self._engine.errored:
            raise EngineDiedError(DIED)
        return deltas

    def load(self) -> Load:
        stats = self._stats if self._answers else SchedulerStats()  # the last ones stay when nothing runs any more
        return Load(stats.num_running_reqs, stats.num_waiting_reqs, stats.kv_cache_usage)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result()
        self._end_loop()
        self._watch.stop()

    async def _make_engine(self) -> AsyncLLM:
        return make_engine(self._args, [self._stat_logger])

    def _stat_logger(self, _config: Any, _engine_index: int = 0) -> StatLoggerBase:
        return _LastStats(self)

    async def _shut_down(self) -> None:
        for task in self._answers.values():
            task.cancel()
        await asyncio.gather(*self._answers.values(), return_exceptions=True)
        self._engine.shutdown()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _begin(self, request: EngineRequest, params: SamplingParams, lora: LoRARequest | None) -> None:
        task = self._loop.create_task(self._answer(request, params, lora))
        self._answers[request.key] = task
        task.add_done_callback(lambda _: self._answers.pop(request.key, None))

    def _cancel(self, key: int) -> None:
        if task := self._answers.get(key):
            task.cancel()

    async def _answer(self, request: EngineRequest, params: SamplingParams, lora: LoRARequest | None) -> None:
        key, top_logprobs = request.key, request.top_logprobs
        prompt = {"type": "token", "prompt_token_ids": list(request.prompt_ids)}
        try:
            async for output in self._engine.generate(prompt, params, str(key), lora_request=lora):
                self._deltas.put(to_delta(key, output.outputs[0], top_logprobs))
        except asyncio.CancelledError:
            await self._engine.abort(str(key))
            self._deltas.put(TokenDelta(key, (), "abort"))
        except VLLMClientError as error:
            self._deltas.put(TokenDelta(key, (), "refused", refusal(request, error)))
        except EngineDeadError:
            pass  # `take` tells it
        except Exception:
            logger.exception("vLLM failed in a request")
            self._deltas.put(TokenDelta(key, (), "error", "the engine failed"))


class _LastStats(StatLoggerBase):  # type: ignore[misc]
    """Keeps the scheduler's last figures."""

    def __init__(self, adapter: VllmAdapter) -> None:
        self._adapter = adapter

    def record(self, scheduler_stats: SchedulerStats | None, *_: Any, **__: Any) -> None:
        if scheduler_stats:
            self._adapter._stats = scheduler_stats

    def log_engine_initialized(self) -> None:
        pass


def make_engine(args: AsyncEngineArgs, stat_loggers: Sequence[StatLoggerFactory] = ()) -> AsyncLLM:
    """To be called where an event loop runs. vLLM sizes the batches of a server otherwise than those of a script."""
    return AsyncLLM.from_engine_args(
        args, usage_context=UsageContext.OPENAI_API_SERVER, stat_loggers=list(stat_loggers)
    )


def make_engine_args(
    *,
    model_path: str,
    max_num_seqs: int,
    kv_cache_gib: int,
    lora_modules: Mapping[str, str],
    **given: Any,
) -> AsyncEngineArgs:
    """vLLM's engine arguments; `given` are its own, by their names in the installed version.

    Raises ValueError for a name that it does not have, or that Tritone decides.
    """
    ours = {
        **ALWAYS,
        "model": model_path,
        "max_num_seqs": max_num_seqs,
        "kv_cache_memory_bytes": kv_cache_bytes(kv_cache_gib, given),
        "enable_lora": bool(lora_modules),
    }
    known = [field.name for field in dataclasses.fields(AsyncEngineArgs)]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ValueError(f"{name} is no setting of vLLM {vllm.__version__}{hint}")
        if name in ours:
            raise ValueError(f"{name} is no setting: Tritone decides it")
    on_cpu = {"dtype": "bfloat16"} if current_platform.is_cpu() else {}  # float16 is a tenth as fast there
    return AsyncEngineArgs(**{**on_cpu, **given, **ours})


def kv_cache_bytes(gib: int, given: Mapping[str, Any]) -> int | None:
    """None leaves it to vLLM, which would take nearly all memory of a CPU machine."""
    if not gib and current_platform.is_cpu() and "gpu_memory_utilization" not in given:
        gib = 1
    return gib * GIB or None


def sampling_params(request: EngineRequest) -> SamplingParams:
    """The request in vLLM's terms. Longer stop sequences are left to postprocess, which knows the text.

    What ends the answer is said with every request, so vLLM's own end token is ignored. Raises RefusedError.
    """
    ends = list(request.ending_ids)
    try:
        params = SamplingParams(
            max_tokens=request.max_tokens,
            min_tokens=request.min_tokens if ends else 0,
            stop_token_ids=ends,
            ignore_eos=True,
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            min_p=request.min_p,
            repetition_penalty=request.repetition_penalty,
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
            seed=request.seed if request.temperature else None,
            logprobs=request.top_logprobs,
            structured_outputs=structured_outputs(request),
            output_kind=RequestOutputKind.DELTA,
            detokenize=False,
            skip_clone=True,
        )
    except VLLMClientError as error:
        raise RefusedError(refusal(request, error)) from error
    if request.bad_sequences:  # as ids; vLLM's public field takes texts, and makes this of them
        params._bad_words_token_ids = [list(sequence) for sequence in request.bad_sequences]
    return params


def refusal(request: EngineRequest, error: VLLMClientError) -> str:
    """What the client is told of an error that vLLM finds in the request: in one line, with the field's name."""
    field = "guided_decoding_guide: " if request.guide_type else ""
    return f"{field}the vllm engine refused the request: {first_reason(error)}"


def structured_outputs(request: EngineRequest) -> StructuredOutputsParams | None:
    """The guide in vLLM's terms."""
    if not request.guide_type:
        return None
    if request.guide_type == "json":
        return StructuredOutputsParams(json_object=True)
    if request.guide_type == "choice":
        return StructuredOutputsParams(choice=json.loads(request.guide))
    name = {"json_schema": "json", "regex": "regex", "ebnf_grammar": "grammar"}[request.guide_type]
    return StructuredOutputsParams(**{name: request.guide})


def to_delta(key: int, output: CompletionOutput, top_logprobs: int | None) -> TokenDelta:
    """What vLLM has made since the last time."""
    ids = tuple(output.token_ids)
    reason = output.finish_reason or ""
    error = "the engine failed" if reason == "error" else ""
    if top_logprobs is None or not output.logprobs:
        return TokenDelta(key, ids, reason, error)
    logprobs = zip(ids, output.logprobs, strict=True)
    return TokenDelta(key, ids, reason, error, tuple(to_logprob(made, found, top_logprobs) for made, found in logprobs))


def to_logprob(token_id: int, found: Mapping[int, Logprob], count: int) -> TokenLogprob:
    """`found` has the chosen token and the likeliest `count`, of which it may be one."""
    ranked = sorted(found.items(), key=lambda item: item[1].rank or 0)
    return TokenLogprob(found[token_id].logprob, tuple((each, one.logprob) for each, one in ranked[:count]))


def first_reason(error: Exception) -> str:
    """The first thing that is wrong, as a sentence of one line."""
    if isinstance(error, ValidationError):
        details = error.errors()[0]
        message = str(details["msg"]).removeprefix("Value error, ")
        return f"{details['loc'][0]}: {message}" if details["loc"] else message
    return next(iter(str(error).splitlines()), type(error).__name__)
