"""The state of every live stream, by stream key. Runs in the postprocess stage.

An entry goes with its stream's last chunk, or, when that never comes because the client has gone, with its row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .answer import Answer
from .logprobs import ChunkLogprobs
from .stream_context import StreamContext
from .stream_table import PostprocessTable, StreamKey, table_path
from .vocabulary import Vocabulary

logger = logging.getLogger(__name__)
SWEEP_INTERVAL_S = 1.0
LEFT_CHECK_INTERVAL_S = 0.5


class Reply(NamedTuple):
    """What the client gets for a chunk; the tokens of the prompt with the first and with the last one.

    `logprobs` is JSON, None where nobody asked.
    """

    text: str
    finish_reason: str
    num_output_tokens: int
    num_input_tokens: int | None
    logprobs: str | None = None


class Streams:
    """Feeds chunks to answers and keeps postprocess's words of the stream table."""

    def __init__(self, vocabulary: Vocabulary, run_dir: Path, server_pid: int, engine_model: str) -> None:
        self._vocabulary = vocabulary
        self._table_path = table_path(run_dir, server_pid, engine_model)
        self._table: PostprocessTable | None = None
        self._answers: dict[StreamKey, Answer] = {}
        self._swept_at_s = 0.0

    def __len__(self) -> int:
        return len(self._answers)

    def feed(
        self,
        key: StreamKey,
        *,
        context: str,
        ids: list[int],
        finish_reason: str,
        read_logprobs: Callable[[], ChunkLogprobs] = ChunkLogprobs,
    ) -> Reply | None:
        """Take a chunk of the stream; None when the client is to see nothing of it.

        `context` comes with the first chunk. Raises ValueError when that is not one, KeyError when it never came.
        `read_logprobs` is called only for a stream that asked.
        """
        if context:
            self._open_table()
            self._answers[key] = Answer(StreamContext.parse(context), self._vocabulary)
        answer = self._answers[key]
        if answer.logprobs:
            answer.logprobs.add(ids, read_logprobs())
        unknown_before = answer.unknown_ids
        delta = answer.feed(ids, finish_reason)
        if answer.unknown_ids and not unknown_before:
            logger.warning("stream %d.%d: the engine made an id that the tokenizer does not have", *key)
        if answer.is_stopped and not finish_reason:
            self._open_table().stop(key)
        if finish_reason:
            del self._answers[key]
        # Triton sees that an HTTP client has left only after a first response, so a stream that has to wait gets an
        # empty one
        is_waiting = bool(context) and not ids and answer.context.is_stream
        if not (delta.text or delta.finish_reason or is_waiting):
            return None
        is_end = answer.is_first_reply or delta.finish_reason
        answer.is_first_reply = False
        num_input_tokens = answer.context.num_input_tokens if is_end else None
        logprobs = answer.logprobs.take(answer.num_decoded) if answer.logprobs else None
        return Reply(delta.text, delta.finish_reason, answer.num_output_tokens, num_input_tokens, logprobs)

    def drop(self, key: StreamKey) -> None:
        """Forget a stream that cannot go on, and tell the engine."""
        self._answers.pop(key, None)
        self._open_table().stop(key)

    def check_left(self, key: StreamKey, is_cancelled: Callable[[], bool]) -> None:
        """Stop the stream if its client has left. To ask Triton costs, so that is done now and then for each stream."""
        answer = self._answers.get(key)
        now_s = time.monotonic()
        if answer and now_s - answer.checked_at_s > LEFT_CHECK_INTERVAL_S:
            answer.checked_at_s = now_s
            if is_cancelled():
                self._open_table().stop(key)

    def acknowledge(self, key: StreamKey, chunk: int) -> None:
        """Let the engine send the next chunk; to be called when the reply to this one is out."""
        self._open_table().ack(key, chunk)

    def sweep(self) -> None:
        """Drop the streams whose rows are gone, now and then."""
        now_s = time.monotonic()
        if self._answers and now_s - self._swept_at_s > SWEEP_INTERVAL_S:
            self._swept_at_s = now_s
            table = self._open_table()
            for key in [key for key in self._answers if not table.is_live(key)]:
                del self._answers[key]

    def _open_table(self) -> PostprocessTable:
        """The engine makes the table before its first chunk, so it is there when it is asked for."""
        if self._table is None:
            self._table = PostprocessTable(self._table_path)
        return self._table
