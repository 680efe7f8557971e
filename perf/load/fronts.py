"""The HTTP fronts that a load test can call: their addresses and bodies. Runs on the load host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from perf.load.events import Event, generate_event, openai_event
from perf.load.request import LoadRequest

GREEDY = {"temperature": 0}


@dataclass(frozen=True)
class Target:
    """What is called: an address (http://HOST:PORT, or HOST:PORT for gRPC), a model, what is added to every request.

    With `wants_counts` an OpenAI server is asked to tell the tokens with every event, not at the end alone, which costs
    it a little.
    """

    url: str
    model: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict)
    ignore_eos: bool = True
    wants_counts: bool = True
    timeout_s: float = 600.0


@dataclass(frozen=True)
class HttpFront:
    """One way to ask over HTTP."""

    path: str
    body: Callable[[Target, LoadRequest], dict[str, Any]]
    read: Callable[[bytes], Event]
    takes_ids: bool


def generate_body(target: Target, request: LoadRequest) -> dict[str, Any]:
    """Of `generate_stream`: inputs of Triton's by name, as all LLM ensembles have them; token ids are for ours only."""
    name = "text_input" if isinstance(request.prompt, str) else "input_ids"
    ignore = {"ignore_eos": True} if target.ignore_eos else {}
    return {name: request.prompt, "max_tokens": request.max_tokens, "stream": True, **GREEDY, **ignore, **target.extra}


def completions_body(target: Target, request: LoadRequest) -> dict[str, Any]:
    """Of `/v1/completions`."""
    return {"prompt": request.prompt, "max_tokens": request.max_tokens, **_openai(target)}


def chat_body(target: Target, request: LoadRequest) -> dict[str, Any]:
    """Of `/v1/chat/completions`: the prompt is one message of the user."""
    messages = [{"role": "user", "content": request.prompt}]
    return {"messages": messages, "max_completion_tokens": request.max_tokens, **_openai(target)}


def _openai(target: Target) -> dict[str, Any]:
    ignore = {"ignore_eos": True} if target.ignore_eos else {}
    options = {"include_usage": True, **({"continuous_usage_stats": True} if target.wants_counts else {})}
    return {"model": target.model, "stream": True, "stream_options": options, **GREEDY, **ignore, **target.extra}


HTTP_FRONTS = {
    "generate_stream": HttpFront("/v2/models/{model}/generate_stream", generate_body, generate_event, True),
    "completions": HttpFront("/v1/completions", completions_body, openai_event, True),
    "chat": HttpFront("/v1/chat/completions", chat_body, openai_event, False),
}
GRPC = "grpc"
FRONTS = (*HTTP_FRONTS, GRPC)
