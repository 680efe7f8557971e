"""Hugging Face transformers behind the adapter: the plain PyTorch baseline, and the reference for greedy answers.

Runs in the engine stage. Batches are static, as those of `model.generate`: the requests that wait are taken together,
and what comes later waits until all of them have been answered. PyTorch is imported when the engine starts.
"""

from __future__ import annotations

import logging
import threading
from itertools import islice
from typing import Any

from .adapter import EngineDiedError, EngineRequest, Load, RefusedError, TokenDelta, cores_for_chunks
from .answer import Answer

logger = logging.getLogger(__name__)


class TransformersAdapter:
    """Runs what static_batch.py's `load_model` loads, by its settings, in a thread of its own."""

    def __init__(
        self, *, max_num_seqs: int, batch_wait_s: float, streaming_cpu_share: float, device: str, **settings: Any
    ) -> None:
        self.streaming_cores = cores_for_chunks(streaming_cpu_share, is_on_cpu=device.startswith("cpu"))
        self._max_num_seqs = max_num_seqs
        self._batch_wait_s = batch_wait_s
        self._model_settings = {"device": device, **settings}
        self._changed = threading.Condition()  # holds for everything below
        self._waiting: dict[int, Answer] = {}
        self._running: set[int] = set()  # keys of the batch's answers that are not over
        self._deltas: list[TokenDelta] = []
        self._is_stopping = False
        self._death = ""
        self._thread = threading.Thread(target=self._run, name="transformers", daemon=True)

    def start(self) -> None:
        try:
            from .static_batch import StaticBatch, load_model
        except ImportError as error:
            raise RuntimeError(f"the transformers engine needs torch and transformers: {error}") from error
        self._new_batch = StaticBatch
        self._model = load_model(**self._model_settings)
        self._thread.start()

    def submit(self, request: EngineRequest) -> None:
        unknown = [token for token in request.prompt_ids if not 0 <= token < self._model.vocab_size]
        if unknown:  # a GPU would not survive it
            raise RefusedError(f"input_ids: got {unknown[0]}, allowed: 0 to {self._model.vocab_size - 1}")
        answer = Answer(request)
        with self._changed:
            self._waiting[request.key] = answer
            self._changed.notify_all()

    def abort(self, key: int) -> None:
        with self._changed:
            if key in self._running or key in self._waiting:
                self._running.discard(key)
                self._waiting.pop(key, None)
                self._deltas.append(TokenDelta(key, (), "abort"))
                self._changed.notify_all()

    def take(self, timeout_s: float) -> list[TokenDelta]:
        with self._changed:
            self._changed.wait_for(lambda: self._deltas or self._death, timeout_s)
            if self._death and not self._deltas:
                raise EngineDiedError(self._death)
            deltas, self._deltas = self._deltas, []
            return deltas

    def load(self) -> Load:
        with self._changed:
            running = len(self._running)
            return Load(running, len(self._waiting), running / self._max_num_seqs)

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        try:
            while answers := self._next_answers():
                self._make(answers)
                self._model.check_device()
        except Exception as error:
            logger.exception("the device failed")
            with self._changed:
                self._death = f"the device failed ({type(error).__name__})"
                self._changed.notify_all()

    def _next_answers(self) -> list[Answer]:
        """The answers of the next batch: the first and what soon follows; none when the engine is to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_stopping)
            self._changed.wait_for(
                lambda: len(self._waiting) >= self._max_num_seqs or self._is_stopping, self._batch_wait_s
            )
            if self._is_stopping:
                return []
            self._running = set(islice(self._waiting, self._max_num_seqs))
            return [self._waiting.pop(key) for key in list(self._waiting) if key in self._running]

    def _make(self, answers: list[Answer]) -> None:
        """Make the answers of one batch to the end. What goes wrong ends them, and nothing else."""
        try:
            batch = self._new_batch(self._model, answers)
            while self._running and not self._is_stopping:
                self._hand_over(batch.step(self._running))
        except Exception as error:
            logger.exception("a step failed")
            message = f"the engine failed in a step ({type(error).__name__})"
            self._hand_over([TokenDelta(answer.request.key, (), "error", message) for answer in answers])

    def _hand_over(self, deltas: list[TokenDelta]) -> None:
        """Give `take` what belongs to answers that are not over, and note which are over now."""
        with self._changed:
            live = [delta for delta in deltas if delta.key in self._running]
            self._running -= {delta.key for delta in live if delta.finish_reason}
            self._deltas += live
            self._changed.notify_all()
