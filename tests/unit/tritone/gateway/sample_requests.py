"""Requests for the tests: the smallest that are valid, and what is added to them."""

from __future__ import annotations

import json
from typing import Any

from tritone.gateway.chat_request import ChatRequest
from tritone.gateway.completion_request import CompletionRequest
from tritone.gateway.ensemble_client import Event
from tritone.gateway.request_fields import Route

SMALLEST: dict[Route, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "completions": {"model": "m", "prompt": "hi"},
}


def body(route: Route, **fields: Any) -> bytes:
    return json.dumps(SMALLEST[route] | fields).encode()


def parse(route: Route, **fields: Any) -> ChatRequest | CompletionRequest:
    return (ChatRequest if route == "chat" else CompletionRequest).parse(body(route, **fields))


def chat(**fields: Any) -> ChatRequest:
    return ChatRequest.parse(body("chat", **fields))


def completion(**fields: Any) -> CompletionRequest:
    return CompletionRequest.parse(body("completions", **fields))


def event(
    text: str, made: int, finish_reason: str | None = None, sent: int | None = None, logprobs: str | None = None
) -> Event:
    return Event(text, made, finish_reason, sent, logprobs)


def entry(token: str | bytes, logprob: float = 0.0, *top: tuple[str, float]) -> dict[str, Any]:
    """An entry of the ensemble's log probabilities; bytes are part of a character."""
    data = token.encode() if isinstance(token, str) else token
    likeliest = [{"token": text, "logprob": value, "bytes": list(text.encode())} for text, value in top]
    shown = data.decode(errors="replace")
    return {"token": shown, "logprob": logprob, "bytes": list(data), "top_logprobs": likeliest}
