"""What a client notes of one answer while it comes. Runs on the load host.

Events are noted as they come and read when the answer has ended, so that reading them delays no other stream's times
by more than one answer's worth.
"""

from __future__ import annotations

from collections.abc import Sequence

from perf.load.events import CountTokens, Event, read_answer
from perf.load.fronts import HttpFront
from perf.load.record import LoadRecord, now_ns


class Notes:
    """What has come of one request so far, and when."""

    def __init__(self, due_ns: int | None) -> None:
        self.sent_ns = now_ns()
        self.due_ns = self.sent_ns if due_ns is None else due_ns
        self.times_ns: list[int] = []
        self.data: list[bytes] = []

    def add(self, data: Sequence[bytes]) -> None:
        """Events that came just now."""
        if data:
            self.times_ns += [now_ns()] * len(data)
            self.data += data

    def record(self, events: Sequence[Event], count_tokens: CountTokens | None) -> LoadRecord:
        """Of an answer whose connection ended as it should; without an end of its own it is an error all the same."""
        answer = read_answer(events, count_tokens)
        kept = [(time, tokens) for time, tokens in zip(self.times_ns, answer.tokens, strict=True) if tokens > 0]
        ended_ns = now_ns()
        record = LoadRecord(
            self.due_ns,
            self.sent_ns,
            tuple(time for time, _ in kept),
            tuple(tokens for _, tokens in kept),
            ended_ns,
            answer.prompt_tokens,
            answer.counting,
            answer.finish_reason,
        )
        if answer.error is not None:
            return record._replace(error="error event", detail=answer.error[:300])
        if not answer.has_end:
            return record._replace(error="no end", detail="the stream ended without an end or a finish reason")
        return record

    def failed(self, error: str, detail: str, events: Sequence[Event] = ()) -> LoadRecord:
        """Of a request that has failed in another way than by an event; what came before is kept."""
        return self.record(events, None)._replace(error=error, detail=detail)


def read_events(front: HttpFront, data: Sequence[bytes]) -> list[Event]:
    """The events of an answer; one that cannot be read is an error."""
    return [_read(front, one) for one in data]


def _read(front: HttpFront, data: bytes) -> Event:
    try:
        return front.read(data)
    except (ValueError, TypeError, AttributeError) as error:
        return Event(error=f"an event that cannot be read: {type(error).__name__}: {data[:100]!r}")
