"""Log probabilities and guides on every front, through a real Triton with the scripted engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tritonclient.utils import InferenceServerException

from engine.scripted_adapter import token_logprob
from tests.toy_tokenizers import IM_END, IM_START

from .gateway import Gateway, Reply, beside, chat, complete, refusal
from .grpc_client import Stream, text_of
from .serving import Server, generate_stream, serve

pytestmark = pytest.mark.service

SPECIAL = {IM_START: "<|im_start|>", IM_END: "<|im_end|>"}

Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    options = ("--set", "tokens_per_second=500", "--max-model-len", "64")
    with serve(tmp_path_factory.mktemp("logprobs"), toy_model, *options) as running:
        yield running


@pytest.fixture(scope="module")
def front(server: Server) -> Gateway:
    return beside(server)


@pytest.fixture(params=["http", "grpc"])
def ask(request: pytest.FixtureRequest, server: Server) -> Ask:
    """The responses to one request."""
    if request.param == "http":
        return lambda **inputs: list(generate_stream(server, "toy", **inputs))
    return lambda **inputs: list(Stream(server.grpc, "toy", **inputs))


def expected(data: bytes, top: int) -> list[dict[str, Any]]:
    """The entries of an answer of the toy model, whose tokens are bytes."""
    return [
        {
            **token(byte, token_logprob(byte, top).logprob),
            "top_logprobs": [token(*pair) for pair in token_logprob(byte, top).top],
        }
        for byte in data
    ]


def token(token_id: int, logprob: float) -> dict[str, Any]:
    if token_id in SPECIAL:
        return {"token": SPECIAL[token_id], "logprob": logprob, "bytes": []}
    return {"token": bytes([token_id]).decode(errors="replace"), "logprob": logprob, "bytes": [token_id]}


def entries_of(responses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for response in responses for entry in json.loads(response["logprobs"])]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("inputs", "text", "data"),
    [
        ({"text_input": "Hi"}, "Hi", b"Hi"),
        ({"text_input": "Hello", "max_tokens": 3}, "Hel", b"Hel"),
        ({"text_input": "aé😀"}, "aé😀", "aé😀".encode()),
        ({"text_input": "abcdef", "stop_words": ["cd"]}, "ab", b"abcd"),
        ({"text_input": "ab", "ignore_eos": True, "max_tokens": 20}, "ab" * 10, b"ab" * 10),
    ],
)
def test_every_token_of_an_answer_has_its_entry(
    ask: Ask, inputs: dict[str, Any], text: str, data: bytes, stream: bool
) -> None:
    for top in (0, 3, 20):
        responses = ask(**inputs, stream=stream, return_log_probs=True, top_logprobs=top)
        assert text_of(responses) == text
        assert entries_of(responses) == expected(data, top)
        assert stream or len(responses) == 1


def test_entries_come_with_the_text_they_belong_to(ask: Ask) -> None:
    told = 0
    for response in ask(text_input="abcdefgh" * 4, ignore_eos=True, max_tokens=30, return_log_probs=True):
        entries = json.loads(response["logprobs"])
        told += len(entries)
        assert "".join(entry["token"] for entry in entries) == response["text_output"]
        assert told == response["num_output_tokens"]
    assert told == 30


@pytest.mark.parametrize("asked", [{}, {"return_log_probs": False}])
def test_nobody_else_gets_any(ask: Ask, asked: dict[str, Any]) -> None:
    for response in ask(text_input="Hi", **asked):
        assert "logprobs" not in response


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"top_logprobs": 3}, "top_logprobs: needs return_log_probs=true"),
    ({"return_log_probs": True, "top_logprobs": 21}, "top_logprobs: got 21, allowed: 0 to 20"),
    ({"guided_decoding_guide_type": "xml"}, "guided_decoding_guide_type: got 'xml', allowed: json, json_schema"),
    ({"guided_decoding_guide": "{}"}, "guided_decoding_guide: needs guided_decoding_guide_type"),
    (
        {"guided_decoding_guide_type": "choice", "guided_decoding_guide": "[1]"},
        "guided_decoding_guide[0]: must be a string, got a number",
    ),
    (
        {"guided_decoding_guide_type": "json"},
        "guided_decoding_guide_type: the scripted engine plays what it is told and cannot be guided",
    ),
    (
        {"guided_decoding_guide_type": "regex", "guided_decoding_guide": "a+"},
        "guided_decoding_guide_type: the scripted engine plays what it is told and cannot be guided",
    ),
    ({"lora_name": "tuned"}, "lora_name: the scripted engine has no model that an adapter could change"),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("inputs", "message"), REFUSED)
def test_what_cannot_be_had_is_named(server: Server, inputs: dict[str, Any], message: str, stream: bool) -> None:
    (reply,) = generate_stream(server, "toy", text_input="a", stream=stream, **inputs)
    assert message in reply["error"]
    with pytest.raises(InferenceServerException) as caught:
        list(Stream(server.grpc, "toy", text_input="a", stream=stream, **inputs))
    assert message in caught.value.message()


def logprobs_of(reply: Reply, stream: bool) -> list[dict[str, Any]]:
    """Those of the only choice, of each chunk that has some or of the whole answer."""
    found = reply.choices if stream else reply.json["choices"]
    return [choice["logprobs"] for choice in found if choice["logprobs"]]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("top", [None, 0, 3])
def test_chat_answers_have_them(front: Gateway, stream: bool, top: int | None) -> None:
    reply = chat(front, "é", stream=stream, logprobs=True, top_logprobs=top)
    told = logprobs_of(reply, stream)
    assert stream or len(told) == 1
    assert [entry for one in told for entry in one["content"]] == expected("[user]é".encode(), top or 0)
    assert {one["refusal"] for one in told} == {None}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("top", [0, 3])
def test_completions_have_them(front: Gateway, stream: bool, top: int) -> None:
    reply = complete(front, "aé!", stream=stream, logprobs=top)
    joined: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for part in logprobs_of(reply, stream):
        for name, values in part.items():
            joined[name] += values
    entries = expected("aé!".encode(), top)
    assert joined["tokens"] == ["a", "bytes:\\xc3", "bytes:\\xa9", "!"]
    assert joined["token_logprobs"] == [entry["logprob"] for entry in entries]
    assert joined["text_offset"] == [0, 1, 1, 2]
    likeliest = dict(token_logprob(ord("a"), top).top) | {ord("a"): token_logprob(ord("a"), top).logprob}
    assert joined["top_logprobs"][0] == {chr(byte): logprob for byte, logprob in likeliest.items()}


@pytest.mark.parametrize("stream", [True, False])
def test_answers_without_have_null(front: Gateway, stream: bool) -> None:
    for reply in (chat(front, "a", stream=stream, logprobs=False), complete(front, "a", stream=stream)):
        assert logprobs_of(reply, stream) == []


GUIDES: list[tuple[str, Any]] = [
    ("response_format", {"type": "json_object"}),
    ("response_format", {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}),
    ("structured_outputs", {"choice": ["a", "b"]}),
    ("guided_json", {"type": "object"}),
    ("guided_regex", "a+"),
    ("guided_choice", ["a", "b"]),
    ("guided_grammar", 'root ::= "a"'),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("name", "value"), GUIDES)
def test_an_engine_that_cannot_be_guided_says_so_by_the_clients_name(
    front: Gateway, name: str, value: Any, stream: bool
) -> None:
    message = f"{name}: the scripted engine plays what it is told and cannot be guided"
    for ask_front in (chat, complete):
        assert refusal(ask_front(front, "a", stream=stream, **{name: value})) == (name, message)


@pytest.mark.parametrize("stream", [True, False])
def test_what_does_not_go_together_is_named(front: Gateway, stream: bool) -> None:
    assert refusal(chat(front, "a", stream=stream, top_logprobs=3))[0] == "top_logprobs"
    assert refusal(complete(front, "a", stream=stream, logprobs=3, echo=True))[0] == "logprobs"
    two = {"guided_regex": "a", "response_format": {"type": "json_object"}}
    for ask_front in (chat, complete):
        assert refusal(ask_front(front, "a", stream=stream, **two))[0] == "guided_regex"
