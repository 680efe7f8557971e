from __future__ import annotations

import json
import shlex

from tritone.config import Config
from tritone.ready_message import ready_message


def commands(config: Config) -> list[list[str]]:
    return [
        shlex.split(line) for line in ready_message(config, "m").splitlines() if line.startswith(("curl", "tritone"))
    ]


def test_the_commands_are_whole_and_say_where_to() -> None:
    text, chat, talk = commands(Config(http_port=18000, grpc_port=18001))
    for curl in (text, chat):
        assert curl[:4] == ["curl", "-N", "http://127.0.0.1:18000/v2/models/m/generate_stream", "-d"]
    assert json.loads(text[4]) == {"text_input": "The capital of France is", "max_tokens": 16}
    assert json.loads(json.loads(chat[4])["messages"]) == [
        {"role": "user", "content": "What is the capital of France?"}
    ]
    assert talk == ["tritone", "chat", "--url", "127.0.0.1:18001"]


def test_a_gateway_is_announced_with_a_request_to_it() -> None:
    message = ready_message(Config(), "m", "https://[::1]:9000")
    assert "  OpenAI   https://[::1]:9000/v1\n" in message
    (line,) = (line for line in message.splitlines() if "chat/completions" in line)
    *_, url, _, body = shlex.split(line)
    assert url == "https://[::1]:9000/v1/chat/completions"
    assert json.loads(body)["model"] == "m"
    assert '"model": "org/name"' in ready_message(Config(name="org/name"), "org-name-1f", "http://127.0.0.1:9000")
    assert "OpenAI" not in ready_message(Config(), "m")


def test_the_usual_place_need_not_be_named() -> None:
    assert commands(Config())[2] == ["tritone", "chat"]


def test_every_address_is_reached_at_the_local_one() -> None:
    assert commands(Config(host="0.0.0.0"))[0][2].startswith("http://127.0.0.1:8000/")
    assert commands(Config(host="::"))[0][2].startswith("http://[::1]:8000/")
