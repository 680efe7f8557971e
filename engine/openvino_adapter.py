"""OpenVINO GenAI behind the adapter: the default engine where there is no GPU.

Runs in the engine stage. One thread steps the continuous-batching pipeline; what a step made is read while the next one
computes.
"""

from __future__ import annotations

import ctypes
import logging
import queue
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino_genai

from .adapter import EngineDiedError, EngineRequest, Load, RefusedError, TokenDelta, cores_for_chunks

logger = logging.getLogger(__name__)
Handle = Any  # openvino_genai's GenerationHandle, which the library does not export

STATUS = openvino_genai.GenerationStatus
FINISH_REASONS = {
    openvino_genai.GenerationFinishReason.STOP: "stop",
    openvino_genai.GenerationFinishReason.LENGTH: "length",
}


class OpenVinoAdapter:
    """Runs what `load_pipeline` loads, by its settings."""

    def __init__(self, *, max_num_seqs: int, streaming_cpu_share: float, **settings: Any) -> None:
        self.streaming_cores = cores_for_chunks(streaming_cpu_share, is_on_cpu=settings["device"] == "CPU")
        self._max_num_seqs = max_num_seqs
        self._load_pipeline = partial(load_pipeline, max_num_seqs=max_num_seqs, **settings)
        self._handles: dict[int, Handle] = {}
        self._steps: queue.SimpleQueue[None] = queue.SimpleQueue()  # those that were made and not yet read
        self._lock = threading.Lock()
        self._work = threading.Event()
        self._is_running = True
        self._death = ""
        self._thread = threading.Thread(target=self._run, name="openvino", daemon=True)

    def start(self) -> None:
        self._pipeline = self._load_pipeline()
        self._step_pipeline = without_gil(self._pipeline)
        self._thread.start()

    def submit(self, request: EngineRequest) -> None:
        prompt = openvino.Tensor(np.array([request.prompt_ids], np.int64))
        with self._lock:
            try:
                handle = self._pipeline.add_request(request.key, prompt, generation_config(request))
            except RuntimeError as error:
                logger.warning("OpenVINO refused a request: %s", error)
                raise RefusedError("the engine refused the request's parameters") from error
            self._handles[request.key] = handle
        self._work.set()

    def abort(self, key: int) -> None:
        with self._lock:
            handle = self._handles.pop(key, None)
            if handle is not None:
                handle.cancel()

    def take(self, timeout_s: float) -> list[TokenDelta]:
        if self._death:
            raise EngineDiedError(self._death)
        try:
            self._steps.get(timeout=timeout_s)
        except queue.Empty:
            return []
        while not self._steps.empty():
            self._steps.get()
        return self._read()

    def load(self) -> Load:
        live = len(self._handles)
        running = min(live, self._max_num_seqs)
        # the library's own figures are those of the last step, so they stay as they were when nothing runs
        return Load(running, live - running, self._pipeline.get_metrics().cache_usage / 100 if live else 0.0)

    def stop(self) -> None:
        self._is_running = False
        self._work.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._is_running:
                self._step()
        except Exception as error:
            logger.exception("OpenVINO failed in a step")
            self._death = f"OpenVINO failed in a step ({type(error).__name__})"
            self._steps.put(None)

    def _step(self) -> None:
        if not self._pipeline.has_non_finished_requests():
            self._work.wait()
            self._work.clear()
            return
        self._step_pipeline()
        self._steps.put(None)

    def _read(self) -> list[TokenDelta]:
        deltas = []
        with self._lock:
            for key, handle in list(self._handles.items()):
                delta = read_delta(key, handle)
                if delta is not None:
                    deltas.append(delta)
                    if delta.finish_reason:
                        del self._handles[key]
        return deltas


def load_pipeline(
    *,
    model_path: str,
    max_num_seqs: int,
    kv_cache_gib: int,
    kv_cache_dtype: str,
    max_num_batched_tokens: int,
    enable_prefix_caching: bool,
    device: str,
) -> Any:
    """A GGUF file or an OpenVINO IR folder on `device`, also for the benchmark of the bare engine.

    `kv_cache_gib` is the size of the paged KV cache, `kv_cache_dtype` f16, f32 or u8; `max_num_batched_tokens` bounds
    the tokens of one step.
    """
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = kv_cache_gib
    scheduler.max_num_seqs = max_num_seqs
    scheduler.max_num_batched_tokens = max_num_batched_tokens
    scheduler.dynamic_split_fuse = True
    scheduler.enable_prefix_caching = enable_prefix_caching
    with tempfile.TemporaryDirectory() as nothing:  # ids come and go; the library cannot read every GGUF's tokenizer
        tokenizer = openvino_genai.Tokenizer(nothing)
    return openvino_genai.ContinuousBatchingPipeline(
        model_path, tokenizer, scheduler, device, KV_CACHE_PRECISION=kv_cache_dtype
    )


def without_gil(pipeline: Any) -> Callable[[], None]:
    """`pipeline.step`, called past its Python binding, which keeps the interpreter locked until the step is over.

    With the binding nothing else of this process runs meanwhile: a chunk took ten steps and more to its client and
    back, 0.3 s at 32 streams. What the library throws here ends the process with its message, instead of being raised
    (either way the engine is dead); Python's own threads and the library's are free to call the pipeline at once, as
    its C++ users do.
    """
    library = ctypes.CDLL(str(next(Path(openvino_genai.__file__).parent.glob("libopenvino_genai.so*"))))
    step = library._ZN2ov5genai26ContinuousBatchingPipeline4stepEv
    step.argtypes, step.restype = [ctypes.c_void_p], None
    # a pybind11 object is a Python object's header and then the address of what it stands for
    address = ctypes.c_void_p.from_address(id(pipeline) + object.__basicsize__).value
    return partial(step, address)


def read_delta(key: int, handle: Handle) -> TokenDelta | None:
    """What the handle holds that was not read before; None when that is nothing."""
    ids: list[int] = []
    reason = ""
    while handle.can_read():
        for output in handle.read().values():
            ids += output.generated_ids
            reason = FINISH_REASONS.get(output.finish_reason, "")
    if not reason and handle.get_status() == STATUS.IGNORED:
        return TokenDelta(key, (), "refused", "max_tokens: the KV cache is too small for this prompt and its answer")
    return TokenDelta(key, tuple(ids), reason) if ids or reason else None


def generation_config(request: EngineRequest) -> openvino_genai.GenerationConfig:
    """The request in OpenVINO's terms. Its stop strings need a tokenizer, so longer stop sequences are left to
    postprocess, which knows the text."""
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = request.max_tokens
    config.min_new_tokens = request.min_tokens
    config.stop_token_ids = set(request.ending_ids)
    config.ignore_eos = not request.end_ids
    config.set_eos_token_id(request.end_ids[0] if request.end_ids else 0)  # it must have one, to be ignored too
    config.do_sample = request.temperature > 0
    if config.do_sample:
        config.temperature = request.temperature
        config.top_p = request.top_p
        config.min_p = request.min_p
        if request.top_k:
            config.top_k = request.top_k
        config.rng_seed = request.seed
    config.repetition_penalty = request.repetition_penalty
    config.presence_penalty = request.presence_penalty
    config.frequency_penalty = request.frequency_penalty
    return config
