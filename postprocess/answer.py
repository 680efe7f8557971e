"""One stream's way from token ids to text deltas. Runs in Triton's Python backend, one `Answer` per stream key."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

from .detokenizer import Detokenizer, detokenizer_for
from .logprobs import StreamLogprobs
from .stop_matcher import StopMatcher
from .stream_context import StreamContext
from .vocabulary import Vocabulary


class Delta(NamedTuple):
    """What a client gets for one chunk: text, possibly empty, and "" or the reason why the answer ends here."""

    text: str
    finish_reason: str


_NOTHING = Delta("", "")


class Answer:
    """Feeds a stream's chunks through detokenizer and stop matcher.

    Joined, the deltas are the same for every grouping of the ids into chunks; with `is_stream` false all text comes in
    the last one. An echoed prompt comes first, verbatim and not searched for stop strings. `logprobs`, there if the
    context asks for it, is fed and taken beside it: one entry for each of `num_decoded` ids.
    """

    def __init__(self, context: StreamContext, vocabulary: Vocabulary) -> None:
        self.context = context
        self.is_finished = False
        self.is_first_reply = True  # nothing was sent of it yet
        self.checked_at_s = 0.0  # when it was last looked whether the client is still there
        self._detokenizer = detokenizer_for(vocabulary, is_text_start=not context.echo_text)
        self._matcher = StopMatcher(context.stop, include_stop=context.include_stop)
        echo = context.echo_text + self._detokenizer.feed(context.echo_ids, skip_special=False)
        self._unsent = [echo] if echo else []
        self.logprobs = _logprobs_for(context, vocabulary) if context.has_logprobs else None
        self.num_decoded = 0  # ids of the answer so far without an end id that may be its end
        self._end_id: list[int] = []  # an end id that came last: no text if the answer turns out to end there

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string is complete, so that the engine may stop."""
        return self._matcher.is_stopped

    @property
    def num_output_tokens(self) -> int:
        """Ids of the answer so far, an end id included; after a stop string, up to the id that completed it."""
        return self.num_decoded + len(self._end_id)

    @property
    def unknown_ids(self) -> int:
        """Ids without tokenizer entry so far, prompt included; they were no text."""
        return self._detokenizer.unknown_ids

    def feed(self, ids: Sequence[int], finish_reason: str = "") -> Delta:
        """Takes a chunk's ids and the engine's finish reason, "" while it runs on.

        A complete stop string makes the reason "stop". After the delta with a reason further chunks give nothing.
        """
        if self.is_finished:
            return _NOTHING
        ids = self._without_end_id(ids, finish_reason)
        too_early = max(self.context.min_tokens - self.num_decoded, 0) if self.context.stop else 0
        text = self._decode(ids[:too_early]) + self._search(ids[too_early:], is_last=bool(finish_reason))
        reason = "stop" if self._matcher.is_stopped else finish_reason
        self.is_finished = bool(reason)
        return Delta(self._take(text), reason)

    def _without_end_id(self, ids: Sequence[int], finish_reason: str) -> Sequence[int]:
        """The ids known to be text. The reason may come a chunk after the end id, so that one waits."""
        if self._end_id and (ids or finish_reason):
            ids, self._end_id = [*self._end_id, *ids], []
        if ids and ids[-1] in self.context.end_ids and finish_reason in ("", "stop"):
            self._end_id, ids = [ids[-1]], ids[:-1]
        return ids

    def _decode(self, ids: Sequence[int]) -> str:
        """The text of ids among which no stop string counts yet."""
        self.num_decoded += len(ids)
        return self._detokenizer.feed(ids, skip_special=self.context.skip_special) if ids else ""

    def _search(self, ids: Sequence[int], *, is_last: bool) -> str:
        before = copy(self._detokenizer) if self.context.stop and len(ids) > 1 else None
        decoded = self._detokenizer.feed(ids, skip_special=self.context.skip_special)
        if is_last:
            decoded += self._detokenizer.flush()
        text = self._matcher.feed(decoded)
        if self._matcher.is_stopped:
            self._end_id = []
            self.num_decoded += self._ids_up_to_stop(before, ids) if before else len(ids)
            return text
        self.num_decoded += len(ids)
        return text + self._matcher.flush() if is_last else text

    def _ids_up_to_stop(self, detokenizer: Detokenizer, ids: Sequence[int]) -> int:
        """How many of the chunk's ids it took to complete the stop string, by decoding them again one by one."""
        missing = self._matcher.end
        for count, token_id in enumerate(ids, 1):
            missing -= len(detokenizer.feed((token_id,), skip_special=self.context.skip_special))
            if missing <= 0:
                return count
        return len(ids)

    def _take(self, text: str) -> str:
        if self.context.is_stream and not self._unsent:
            return text
        self._unsent.append(text)
        if not (self.context.is_stream or self.is_finished):
            return ""
        text = "".join(self._unsent)
        self._unsent.clear()
        return text


def _logprobs_for(context: StreamContext, vocabulary: Vocabulary) -> StreamLogprobs:
    is_text_start = not (context.echo_text or context.echo_ids)
    return StreamLogprobs(vocabulary, skip_special=context.skip_special, is_text_start=is_text_start)
