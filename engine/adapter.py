"""What the engine stage asks of an engine. Token ids in, token ids out; nothing of Triton, streams or text.

Runs in the engine stage. An adapter owns its threads; every method but `take` returns at once.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class RefusedError(Exception):
    """The engine cannot run this one request. The message goes to the client and names the field."""


class EngineDiedError(Exception):
    """The engine is gone and no request can be served any more."""


@dataclass(frozen=True)
class EngineRequest:
    """One prompt and how to continue it. Values were checked by preprocess; `key` is unique among live requests."""

    key: int
    prompt_ids: tuple[int, ...]
    max_tokens: int
    min_tokens: int = 0
    end_ids: tuple[int, ...] = ()  # any of them ends the answer, from `min_tokens` on; handed over like the others
    stop_sequences: tuple[tuple[int, ...], ...] = ()  # an early hint: the text decides, in postprocess
    bad_sequences: tuple[tuple[int, ...], ...] = ()  # never made
    temperature: float = 0.0  # 0 is greedy
    top_k: int = 0  # 0 is off
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0
    top_logprobs: int | None = None  # None: no log probabilities; else those of so many besides the chosen one
    guide_type: str = ""  # what the answer must match: json, json_schema, regex, ebnf_grammar or choice; "" is free
    guide: str = ""
    lora_name: str = ""  # "" is the model as it is

    @property
    def ending_ids(self) -> tuple[int, ...]:
        """The ids that end the answer by themselves: its end ids, then its stop sequences of a single id."""
        return (*self.end_ids, *(sequence[0] for sequence in self.stop_sequences if len(sequence) == 1))


class TokenLogprob(NamedTuple):
    """The natural logarithm of the probability that the model gave a token it made, and the likeliest ids with theirs.

    `top` has `top_logprobs` entries, likeliest first, whether or not the token is among them.
    """

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class TokenDelta(NamedTuple):
    """New ids of one request. `finish_reason` is "" until the last delta: stop, length, abort, error or refused.

    The last is an error that is the request's fault, found out too late for `submit` to raise it: nothing was made.
    `logprobs` has one entry for each of `ids` where the request asked for them.
    """

    key: int
    ids: tuple[int, ...]
    finish_reason: str = ""
    error: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()


def cores_for_chunks(cpu_share: float, *, is_on_cpu: bool) -> float:
    """An adapter's `streaming_cores`: that part of all cores where the engine computes on them."""
    return cpu_share * len(os.sched_getaffinity(0)) if is_on_cpu else math.inf


class Load(NamedTuple):
    """How busy the engine is: requests running and waiting, and the part of the KV cache in use, 0 to 1."""

    running: int
    waiting: int
    kv_usage: float


class EngineAdapter(Protocol):
    """One engine. Only `take` blocks; `submit` and `abort` may be called from another thread than `take`.

    `streaming_cores` is how many CPU cores, or what part of one, may be busy with the chunks of all streams: little
    where the engine computes on the same cores, infinite where it does not.
    """

    streaming_cores: float

    def start(self) -> None:
        """Load the model. Raises with a sentence for the user when it cannot."""

    def submit(self, request: EngineRequest) -> None:
        """Queue a request. Raises RefusedError when the engine cannot run it."""

    def abort(self, key: int) -> None:
        """End a request and free its slot within one step. Its last delta, if any still comes, is "abort"."""

    def take(self, timeout_s: float) -> list[TokenDelta]:
        """What was made since the last call, waiting up to `timeout_s` for the first. Raises EngineDiedError."""

    def load(self) -> Load:
        """The engine's load now."""

    def stop(self) -> None:
        """End every thread and process of the engine."""
