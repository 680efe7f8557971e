"""What both routes check alike: limits, and stream options."""

from __future__ import annotations

import pytest

from tritone.gateway.chat_request import ChatRequest
from tritone.gateway.generation_request import RequestLimits
from tritone.gateway.openai_error import OpenAIError
from tritone.gateway.request_fields import BOTH, Route

from .sample_requests import body, parse


@pytest.mark.parametrize("route", BOTH)
@pytest.mark.parametrize(
    ("options", "wants_usage", "wants_continuous"),
    [
        (None, False, False),
        ({}, False, False),
        ({"include_usage": None}, False, False),
        ({"include_usage": False, "include_obfuscation": False}, False, False),
        ({"include_usage": True}, True, False),
        ({"continuous_usage_stats": True}, False, True),
        ({"include_usage": True, "continuous_usage_stats": True}, True, True),
    ],
)
def test_stream_options(
    route: Route, options: dict[str, bool] | None, wants_usage: bool, wants_continuous: bool
) -> None:
    request = parse(route, stream=True, stream_options=options)
    assert (request.wants_usage, request.wants_continuous_usage) == (wants_usage, wants_continuous)


@pytest.mark.parametrize("route", BOTH)
@pytest.mark.parametrize("options", [{}, {"include_usage": False}])
def test_stream_options_need_a_stream(route: Route, options: dict[str, bool]) -> None:
    with pytest.raises(OpenAIError, match=r"^stream_options: is only allowed with stream=true$"):
        parse(route, stream_options=options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"include_usage": 1}, "stream_options.include_usage: must be true or false, got 1"),
        ({"include": True}, "stream_options.include: is not known here, got"),
        (
            {"include_obfuscation": True},
            "stream_options.include_obfuscation: is not available; allowed: null, false",
        ),
    ],
)
def test_bad_stream_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(OpenAIError) as caught:
        parse("chat", stream=True, stream_options=options)
    assert caught.value.message == message.removesuffix(", got")


def test_limit_of_choices() -> None:
    assert ChatRequest.parse(body("chat", n=2), RequestLimits(choices_per_prompt=2)).num_choices == 2
    with pytest.raises(OpenAIError, match=r"^n: got 3, allowed: 1 to 2$"):
        ChatRequest.parse(body("chat", n=3), RequestLimits(choices_per_prompt=2))
