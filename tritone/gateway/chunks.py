"""The ensemble's events as OpenAI's stream chunks, framed for the wire.

A chunk is a constant head, the text as JSON, and a constant tail: what a stream costs is one `json.dumps` of a string
for each delta. Events that arrived together make one chunk.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence

from . import sse
from .chat_request import ChatRequest
from .completion_request import CompletionRequest
from .ensemble_client import Event
from .logprobs import CompletionLogprobs, chat_logprobs, entries_of
from .openai_error import OpenAIError
from .usage import UsageCount

FINISH_REASONS = ("stop", "length")


def new_id(prefix: str) -> str:
    """A unique id of an answer: `chatcmpl-…` or `cmpl-…`."""
    return f"{prefix}-{uuid.uuid4().hex}"


def text_of(events: Sequence[Event]) -> str:
    """The text of events that arrived together."""
    return events[0].text if len(events) == 1 else "".join(event.text for event in events)


def finish_reason_of(event: Event) -> str | None:
    """OpenAI's finish reason. Raises OpenAIError (500) where the answer was broken off."""
    if event.finish_reason is None or event.finish_reason in FINISH_REASONS:
        return event.finish_reason
    raise OpenAIError(500, "The answer was broken off by the server.")


class _Stream:
    """One answer's stream of chunks, all its choices. Every method gives whole events."""

    def __init__(self, kind: str, request: ChatRequest | CompletionRequest, response_id: str, created: int) -> None:
        constant = {"id": response_id, "object": kind, "created": created, "model": request.model}
        self._head = json.dumps(constant | {"system_fingerprint": None}, separators=(",", ":"))[:-1] + ',"choices":['
        self._has_usage_at_end = request.wants_usage
        self._has_usage_always = request.wants_continuous_usage
        self._usage = UsageCount(request.n)
        self._unfinished = set(range(request.num_choices))
        self._has_logprobs = request.num_top_logprobs is not None

    def finish(self) -> list[bytes]:
        """The end of a stream that succeeded. Raises OpenAIError (500) if a choice has no finish reason yet."""
        if self._unfinished:
            raise OpenAIError(500, "The answer ended before it was complete.")
        usage = [sse.frame(f'{self._head}],"usage":{self._usage_json()}}}')] if self._has_usage_at_end else []
        return [*usage, sse.DONE]

    def _read(self, index: int, events: Sequence[Event]) -> tuple[str, str | None, str]:
        """The new text of a choice, its finish reason if it has ended, and the entries of log probabilities as JSON."""
        last = events[-1]
        self._usage.add(index, last)
        finish_reason = finish_reason_of(last)
        if finish_reason:
            self._unfinished.discard(index)
        return text_of(events), finish_reason, entries_of(events) if self._has_logprobs else ""

    def _chunk(self, choice: str) -> bytes:
        if self._has_usage_always:
            return sse.frame(f'{self._head}{choice}],"usage":{self._usage_json()}}}')
        return sse.frame(
            f'{self._head}{choice}],"usage":null}}' if self._has_usage_at_end else f"{self._head}{choice}]}}"
        )

    def _usage_json(self) -> str:
        return json.dumps(self._usage.body(), separators=(",", ":"))


class ChatStream(_Stream):
    """The chunks of a chat answer: a role for each choice, deltas, and a last one with the finish reason."""

    def __init__(self, request: ChatRequest, response_id: str, created: int) -> None:
        super().__init__("chat.completion.chunk", request, response_id, created)

    def start(self, index: int) -> list[bytes]:
        """What comes before the text of choice `index`."""
        return [self._delta(index, '{"role":"assistant","content":""}')]

    def events(self, index: int, events: Sequence[Event]) -> list[bytes]:
        """Chunks for new events of choice `index`; none if they say nothing. Raises OpenAIError (500)."""
        text, finish_reason, entries = self._read(index, events)
        logprobs = chat_logprobs(entries) if entries else "null"
        chunks = [self._delta(index, f'{{"content":{json.dumps(text)}}}', logprobs)] if text or entries else []
        return [*chunks, self._delta(index, "{}", finish_reason=f'"{finish_reason}"')] if finish_reason else chunks

    def _delta(self, index: int, delta: str, logprobs: str = "null", finish_reason: str = "null") -> bytes:
        return self._chunk(f'{{"index":{index},"delta":{delta},"logprobs":{logprobs},"finish_reason":{finish_reason}}}')


class CompletionStream(_Stream):
    """The chunks of a completion. The finish reason comes with the last text, an echo before the first."""

    def __init__(self, request: CompletionRequest, response_id: str, created: int) -> None:
        super().__init__("text_completion", request, response_id, created)
        self._request = request
        self._logprobs = [CompletionLogprobs() for _ in range(request.num_choices)] if self._has_logprobs else []

    def start(self, index: int) -> list[bytes]:
        """What comes before the text of choice `index`."""
        echo = self._request.echoed(index)
        return [self._text(index, echo)] if echo else []

    def events(self, index: int, events: Sequence[Event]) -> list[bytes]:
        """Chunks for new events of choice `index`; none if they say nothing. Raises OpenAIError (500)."""
        text, finish_reason, entries = self._read(index, events)
        logprobs = json.dumps(self._logprobs[index].add(entries)) if entries else "null"
        if finish_reason:
            return [self._text(index, text, logprobs, f'"{finish_reason}"')]
        return [self._text(index, text, logprobs)] if text or entries else []

    def _text(self, index: int, text: str, logprobs: str = "null", finish_reason: str = "null") -> bytes:
        start = f'{{"index":{index},"text":{json.dumps(text)},'
        return self._chunk(f'{start}"logprobs":{logprobs},"finish_reason":{finish_reason}}}')
