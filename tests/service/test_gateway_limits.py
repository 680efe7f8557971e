"""Numbers and lengths at their limits and beyond: field reports, by number, through a real Triton."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.unit.preprocess.toy_models import CONTEXT

from .gateway import COMPLETIONS, Gateway, chat, complete, refusal, send, text_of

pytestmark = pytest.mark.service

MODES = [False, True]


@pytest.mark.parametrize(
    "field", ["temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"]
)
@pytest.mark.parametrize("stream", ["false", "true"])
def test_b30_no_number_that_is_none(front: Gateway, field: str, stream: str) -> None:
    for value in ("NaN", "Infinity", "-Infinity", "1e999", '"nan"', "-3"):
        body = f'{{"model": "toy", "prompt": "a", "stream": {stream}, "{field}": {value}}}'
        assert refusal(send(front, COMPLETIONS, body.encode()))[0] == field
    for value in ("0", "-0.0", "1e-9", "1e-4"):
        assert complete(front, "a", temperature=json.loads(value), stream=stream == "true").status == 200


def test_b32_ids_outside_the_vocabulary_harm_nobody(front: Gateway) -> None:
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(complete, front, "x" * 30, stream=True)
        for bias in ({"99999": 5}, {"-1": 1}, {"abc": 1}, {"97": 1e9}, {"97": "x"}, {"1": 1}):
            assert refusal(complete(front, "a", logit_bias=bias))[0] == "logit_bias"
        for ids in ([99999], [-1], [320], [97] * 5000):
            param, message = refusal(complete(front, "a", stop_token_ids=ids))
            assert str(param).startswith("stop_token_ids")
        assert "allowed" in message
        assert text_of(beside.result()) == "x" * 30


@pytest.mark.parametrize("stream", MODES)
def test_b34_edges_of_max_tokens(front: Gateway, stream: bool) -> None:
    one = complete(front, "ab", max_tokens=1, stream=stream)
    assert text_of(one) == "a"
    assert one.body.count(b'"finish_reason":"length"' if stream else b'"finish_reason": "length"') == 1
    for value in (0, -1, 2**31 - 1, 2**31, 10**18, 10.0, 10.5, "10", True):
        assert refusal(complete(front, "ab", max_tokens=value, stream=stream))[0] == "max_tokens"
    assert text_of(complete(front, "ab", max_tokens=None, stream=stream)) == "ab"
    for field in ("max_tokens", "max_completion_tokens"):
        assert text_of(chat(front, "hi", stream=stream, **{field: 1})) == "["
        for value in (0, -1, 2**31 - 1, 10.5, "10", True):
            assert refusal(chat(front, "hi", stream=stream, **{field: value}))[0] == field
    assert b"NaN" not in send(front, "/metrics").body  # one token has no time between tokens


@pytest.mark.parametrize("stream", MODES)
def test_b35_edges_of_the_context(front: Gateway, stream: bool) -> None:
    for num_prompt, most in ((62, 2), (63, 1), (63, None)):
        reply = complete(front, "x" * num_prompt, max_tokens=most, ignore_eos=True, stream=stream)
        assert len(text_of(reply)) == (most or CONTEXT - num_prompt)
    for num_prompt, most, name in (
        (63, 2, "max_tokens"),
        (64, None, "prompt"),
        (65, None, "prompt"),
        (65, 1, "prompt"),
    ):
        param, message = refusal(complete(front, "x" * num_prompt, max_tokens=most, stream=stream))
        assert (param, "64" in message) == (name, True)
    too_long = complete(front, "x" * 65, stream=stream)
    assert too_long.error["code"] == "context_length_exceeded"
    assert "maximum context length is 64 tokens" in too_long.error["message"]


@pytest.mark.parametrize("stream", MODES)
def test_one_refused_prompt_of_many_refuses_the_request(front: Gateway, stream: bool) -> None:
    assert refusal(complete(front, ["ab", "x" * 70, "cd"], stream=stream))[0] == "prompt"


@pytest.mark.parametrize("prompt", ["", [""], [], [[]], ["a", ""]])
@pytest.mark.parametrize("stream", MODES)
def test_b37_empty_prompt_without_bos(front: Gateway, prompt: Any, stream: bool) -> None:
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(complete, front, "x" * 30, stream=True)
        assert str(refusal(complete(front, prompt, stream=stream))[0]).startswith("prompt")
        assert text_of(beside.result()) == "x" * 30


def test_b55_a_prompt_of_megabytes_is_refused_quickly(front: Gateway) -> None:
    started_s = time.monotonic()
    param, message = refusal(complete(front, "x" * 5_000_000))
    assert (param, "allowed" in message) == ("prompt", True)
    assert time.monotonic() - started_s < 5
