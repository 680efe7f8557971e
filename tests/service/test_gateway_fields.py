"""Every declared field of every route, in valid and invalid form, stream and not, through a real Triton."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tritone.gateway.field_values import INVALID, REFUSED_VALUES, VALID
from tritone.gateway.request_fields import FIELDS, RequestField, Route
from tritone.gateway.sse import CONTENT_TYPE

from .gateway import CHAT, COMPLETIONS, Gateway, Reply, beside, send
from .serving import serve

pytestmark = pytest.mark.service

PATHS: dict[Route, str] = {"chat": CHAT, "completions": COMPLETIONS}
SMALLEST: dict[Route, dict[str, Any]] = {
    "chat": {"model": "toy", "messages": [{"role": "user", "content": "hi"}]},
    "completions": {"model": "toy", "prompt": "hi"},
}
CASES = [(field, route) for field in FIELDS for route in field.routes]
IDS = [f"{route}-{field.name}" for field, route in CASES]

NOT_OF_THIS_MODEL: dict[str, list[Any]] = {
    "model": VALID["model"],
    "prompt": [""],
    "max_tokens": [2**31 - 1],
    "max_completion_tokens": [2**31 - 1],
    "bad_words": [["a"]],
    "tools": [VALID["tools"][1]],
    "chat_template_kwargs": [{"enable_thinking": False}],
    "reasoning_effort": VALID["reasoning_effort"],
    "continue_final_message": [True],
    "messages": [VALID["messages"][1]],
    "response_format": VALID["response_format"][1:],
    **{name: VALID[name] for name in VALID if name.startswith(("guided_", "structured_"))},
}
"""Values in range that the toy model, its template or the scripted engine cannot take."""


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Gateway]:
    options = ("--set", "tokens_per_second=5000", "--max-model-len", "64", "--max-num-seqs", "32")
    with serve(tmp_path_factory.mktemp("fields"), toy_model, *options) as server:
        yield beside(server)


def both_modes(front: Gateway, route: Route, name: str, value: Any) -> list[Reply]:
    """The replies without and with stream; what the field itself says of streaming stays."""
    replies = []
    for is_stream in (False, True):
        if name == "stream_options" and not is_stream:
            continue
        body = {**SMALLEST[route], "stream": is_stream, name: value}
        replies.append(send(front, PATHS[route], json.dumps(body).encode()))
    return replies


def check_success(reply: Reply) -> None:
    if reply.headers["content-type"] == CONTENT_TYPE:
        assert reply.events[-1] == "[DONE]"
        assert reply.choices
    else:
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert {choice["finish_reason"] for choice in reply.json["choices"]} <= {"stop", "length"}


def check_refusal(replies: list[Reply], field: str) -> None:
    for reply in replies:
        assert reply.status == (404 if field == "model" and reply.error["code"] == "model_not_found" else 400)
        assert reply.headers["content-type"] == "application/json"
        assert reply.error["type"] == "invalid_request_error"
        assert str(reply.error["param"]).partition("[")[0].partition(".")[0] == field
        assert reply.body == replies[0].body


@pytest.mark.parametrize(("field", "route"), CASES, ids=IDS)
def test_valid_values_give_an_answer(front: Gateway, field: RequestField, route: Route) -> None:
    values = field.neutral if field.use == "refused" else VALID.get(field.name, [{"include_usage": True}])
    for value in values:
        replies = both_modes(front, route, field.name, value)
        if value in NOT_OF_THIS_MODEL.get(field.name, []):
            check_refusal(replies, field.name)
        else:
            for reply in replies:
                check_success(reply)


@pytest.mark.parametrize(("field", "route"), CASES, ids=IDS)
def test_b42_invalid_values_are_refused_alike_in_both_modes(front: Gateway, field: RequestField, route: Route) -> None:
    for value in REFUSED_VALUES if field.use == "refused" else INVALID[field.name]:
        if field.takes(value) or (field.name == "stream_options" and value == {"include_usage": True}):
            continue
        check_refusal(both_modes(front, route, field.name, value), field.name)


@pytest.mark.parametrize("route", ["chat", "completions"])
def test_missing_and_unknown_fields_are_named(front: Gateway, route: Route) -> None:
    for missing in SMALLEST[route]:
        body = {name: value for name, value in SMALLEST[route].items() if name != missing}
        reply = send(front, PATHS[route], body)
        assert (reply.status, reply.error["param"], reply.error["code"]) == (
            400,
            missing,
            "missing_required_parameter",
        )
    check_refusal(both_modes(front, route, "max_new_tokens", 5), "max_new_tokens")


OTHER_ROUTES: list[tuple[str, dict[str, Any], int, str | None]] = [
    ("/tokenize", {"prompt": "hé"}, 200, None),
    ("/tokenize", {"messages": [{"role": "user", "content": "a"}]}, 200, None),
    ("/tokenize", {"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": False}, 200, None),
    ("/tokenize", {}, 400, "prompt"),
    ("/tokenize", {"prompt": "a", "messages": []}, 400, "prompt"),
    ("/tokenize", {"prompt": 1}, 400, "prompt"),
    ("/tokenize", {"prompt": "x" * 100}, 400, "prompt"),
    ("/tokenize", {"prompt": "a", "tools": []}, 400, "tools"),
    ("/tokenize", {"prompt": "a", "truncate": True}, 400, "truncate"),
    ("/tokenize", {"messages": "a"}, 400, "messages"),
    ("/tokenize", {"messages": []}, 400, "messages"),
    ("/tokenize", {"messages": [{"role": "user", "content": "a"}], "continue_final_message": True}, 400, None),
    ("/tokenize", {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"x": 1}}, 400, None),
    ("/tokenize", {"model": "nope", "prompt": "a"}, 404, "model"),
    ("/detokenize", {"tokens": [104, 195, 169]}, 200, None),
    ("/detokenize", {"tokens": []}, 400, "tokens"),
    ("/detokenize", {"tokens": [320]}, 400, "tokens"),
    ("/detokenize", {"tokens": [-1]}, 400, "tokens"),
    ("/detokenize", {"tokens": [1.5]}, 400, "tokens"),
    ("/detokenize", {"tokens": ["a"]}, 400, "tokens"),
    ("/detokenize", {"tokens": [97] * 100}, 400, "tokens"),
    ("/detokenize", {}, 400, "tokens"),
    ("/detokenize", {"model": "nope", "tokens": [97]}, 404, "model"),
]


@pytest.mark.parametrize(("path", "fields", "status", "param"), OTHER_ROUTES)
def test_fields_of_the_other_routes(
    front: Gateway, path: str, fields: dict[str, Any], status: int, param: str | None
) -> None:
    reply = send(front, path, {"model": "toy", **fields})
    assert (reply.status, reply.headers["content-type"]) == (status, "application/json"), reply.body
    if status != 200:
        assert str(reply.error["param"]).partition("[")[0] == (param or reply.error["message"].partition(":")[0])


def test_tokens_and_their_text_are_those_of_an_answer(front: Gateway) -> None:
    tokens = send(front, "/tokenize", {"model": "toy", "messages": SMALLEST["chat"]["messages"]}).json
    text = send(front, "/detokenize", {"model": "toy", "tokens": tokens["tokens"]}).json
    usage = send(front, CHAT, SMALLEST["chat"]).json["usage"]
    assert text == {"prompt": "[user]hi<|im_end|>[assistant]"}
    assert (tokens["count"], tokens["max_model_len"]) == (len(tokens["tokens"]), 64)
    assert usage["prompt_tokens"] == tokens["count"]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/tokenize", "/detokenize"])
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"a"', b"\xff", b"[" * 100_000, b'{"model": 1e999}', b'{"n": 1' + b"0" * 5000 + b"}"],
)
def test_bodies_that_are_no_request(front: Gateway, path: str, body: bytes) -> None:
    reply = send(front, path, body, method="POST")
    assert (reply.status, reply.error["type"]) == (400, "invalid_request_error")
