"""What `tritone serve` prints when the server is ready: where it listens and how to talk to it. Runs in our process."""

from __future__ import annotations

import json
import shlex
from typing import Any

from tritone.config import Config
from tritone.ports import in_url, reachable


def ready_message(config: Config, model: str, gateway_url: str | None = None) -> str:
    """The addresses, requests to try, and the chat command."""
    host = in_url(reachable(config.host))
    url = f"http://{host}:{config.http_port}/v2/models/{model}/generate_stream"
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    chat_url = f"{gateway_url}/v1/chat/completions"
    chat_body = {"model": config.name or model, "messages": messages, "stream": True}
    chat = (
        "tritone chat"
        if config.grpc_port == 8001 and host == "127.0.0.1"
        else f"tritone chat --url {host}:{config.grpc_port}"
    )
    return "\n".join(
        [
            "",
            f"{model} is ready, Ctrl-C stops it",
            *([f"  OpenAI   {gateway_url}/v1"] if gateway_url else []),
            f"  HTTP     http://{host}:{config.http_port}",
            f"  gRPC     {host}:{config.grpc_port}",
            f"  metrics  http://{host}:{config.metrics_port}/metrics",
            "",
            _curl(url, {"text_input": "The capital of France is", "max_tokens": 16}),
            _curl(url, {"messages": json.dumps(messages)}),
            *([_curl(chat_url, chat_body)] if gateway_url else []),
            chat,
            "",
        ]
    )


def _curl(url: str, body: dict[str, Any]) -> str:
    return f"curl -N {url} -d {shlex.quote(json.dumps(body))}"
