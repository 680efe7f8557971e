"""What the load generator knows of one request: the raw sample of requests.jsonl. Runs on the load host.

Times are nanoseconds of `now_ns`, which goes on steadily from the system clock's time at the start of the process.
"""

from __future__ import annotations

import time
from typing import NamedTuple

_OFFSET_NS = time.time_ns() - time.monotonic_ns()

COUNTED, APPORTIONED, TOKENIZED, ONE_EACH = "counted", "apportioned", "tokenized", "one each"
"""How a record's tokens are known: the server told them with every event; it told the total, which is shared out by the
length of the events' text; a tokenizer counted the text, shared out likewise; each event with text is taken for one."""


def now_ns() -> int:
    """The time. Comparable with other processes' system clocks, but never set back or forth."""
    return time.monotonic_ns() + _OFFSET_NS


class LoadRecord(NamedTuple):
    """One request. `received_ns` and `tokens` are of the events that brought any token, in their order.

    `due_ns` is when an open loop wanted to send it, otherwise `sent_ns`. An `error` has one of the kinds `refused`
    (an HTTP status or a gRPC code before the first event), `error event` (after it), `broken off`, `no end` and
    `timeout`; `detail` says more. What came before an error is kept, and no figure but the error rate is made of it.
    """

    due_ns: int
    sent_ns: int
    received_ns: tuple[int, ...]
    tokens: tuple[int, ...]
    ended_ns: int
    prompt_tokens: int | None
    counting: str
    finish_reason: str | None = None
    error: str | None = None
    detail: str | None = None

    @property
    def output_tokens(self) -> int:
        """All tokens of the answer."""
        return sum(self.tokens)
