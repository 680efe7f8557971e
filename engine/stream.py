"""One request on its way through the engine stage: what is known of it, what is sent, and the way back to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .adapter import TokenLogprob
from .stream_table import StreamKey


class Chunk(NamedTuple):
    """What goes to postprocess. `number` counts from 1; `context` is "" from the second chunk on."""

    key: StreamKey
    number: int
    ids: list[int]
    context: str
    finish_reason: str
    logprobs: Sequence[TokenLogprob] = ()  # one for each of `ids` where the request asked for them


class Responder(Protocol):
    """The way back to one request. Each method but `send` with is_last=False ends the request."""

    def send(self, chunk: Chunk, is_last: bool) -> None:
        """Send a chunk."""

    def fail(self, message: str, is_refusal: bool = False) -> None:
        """End the request with an error; a refusal is its own fault."""


@dataclass(eq=False)
class Stream:
    """One request on its way through the engine."""

    key: StreamKey
    request_id: str
    context: str
    responder: Responder
    pending: list[int] = field(default_factory=list)
    pending_logprobs: list[TokenLogprob] = field(default_factory=list)
    finish_reason: str = ""
    error: str = ""
    is_in_flight: bool = False
    is_in_window: bool = False
    is_ready: bool = False
    is_closed: bool = False  # the last chunk is out; only its acknowledgement is awaited
    sent_at_s: float = 0.0


def engine_key(key: StreamKey) -> int:
    """The adapter's name for a stream: one integer."""
    return key.generation << 32 | key.row


def row_of(key: int) -> int:
    """The stream's row in the table, from the adapter's name for it."""
    return key & 0xFFFFFFFF
