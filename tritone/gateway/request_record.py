"""What is known of one HTTP request, filled in by whoever learns it; the access log and the metrics are made of it.

Runs in the gateway. Lies in the request's ASGI scope, where every layer finds it.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.types import Scope

Outcome = Literal["ok", "refused", "overloaded", "error", "disconnected"]

_KEY = "tritone.record"
_LONGEST_PATH = 256


@dataclass(slots=True)
class RequestRecord:
    """Times are of time.monotonic(), in seconds.

    `id` is told to the client; `internal_id`, which no other request has, to Triton. `error` says what broke an answer
    off after its first byte. `prompt` and `answers` (each in parts) are kept to be logged only if that is switched on.
    """

    id: str
    internal_id: str
    method: str
    path: str
    client: str
    started_s: float
    status: int = 0
    model: str = ""
    is_stream: bool = False
    num_prompt_tokens: int = 0
    num_generation_tokens: int = 0
    first_token_s: float | None = None
    finish_reasons: list[str] = field(default_factory=list)
    error: str = ""
    is_disconnected: bool = False
    prompt: list[Any] | None = None  # see log_prompt
    answers: list[list[str]] = field(default_factory=list)
    trace_headers: dict[str, str] = field(default_factory=dict)
    last_tokens: dict[int, tuple[float, int]] = field(default_factory=dict)  # choice: when, and how many by then

    def log_prompt(self, prompt: list[Any], num_answers: int) -> None:
        """Have the prompt (messages, or prompts) logged, and what is given to `log_text` later."""
        self.prompt, self.answers = prompt, [[] for _ in range(num_answers)]

    def log_text(self, index: int, text: str) -> None:
        """More text of an answer, which is logged if its prompt is."""
        if self.answers:
            self.answers[index].append(text)

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        if self.is_disconnected:
            return "disconnected"
        if self.status in (429, 503):
            return "overloaded"
        if self.error or self.status >= 500 or self.status == 0:
            return "error"
        return "refused" if self.status >= 400 else "ok"


def new_record(scope: Scope) -> RequestRecord:
    """A record for the request of `scope`, put there, with an id of its own."""
    own_id = uuid.uuid4().hex
    client = scope.get("client") or ("", 0)
    path = scope["path"][:_LONGEST_PATH]
    record = RequestRecord(f"req-{own_id}", own_id, scope["method"], path, client[0], time.monotonic())
    scope.setdefault("state", {})[_KEY] = record
    return record


def record_of(scope: Scope) -> RequestRecord:
    """The record of the request of `scope`."""
    record: RequestRecord = scope["state"][_KEY]
    return record
