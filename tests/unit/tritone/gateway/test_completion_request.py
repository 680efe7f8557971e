"""Prompts of a completion request, and what goes with them."""

from __future__ import annotations

from typing import Any

import pytest

from tritone.gateway.completion_request import CompletionRequest
from tritone.gateway.generation_request import RequestLimits
from tritone.gateway.openai_error import OpenAIError

from .sample_requests import body, completion


@pytest.mark.parametrize(
    ("sent", "prompts"),
    [
        ("", [""]),
        ("he\u0000llo", ["he\u0000llo"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
    ],
)
def test_all_shapes_of_prompts(sent: Any, prompts: list[Any]) -> None:
    request = completion(prompt=sent, n=2)
    assert request.prompt == prompts
    assert request.num_choices == 2 * len(prompts)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ([], "prompt: is an empty list"),
        ([[1], []], "prompt[1]: is an empty list"),
        (["a", [1]], "prompt[1]: is not of the same type as prompt[0], got a list"),
        ([1, -1], "prompt[1]: got -1, allowed: a token id of the model, 0 or more"),
        ([[1], [True]], "prompt[1][0]: must be a token id, got true"),
    ],
)
def test_what_is_wrong_with_a_prompt(sent: Any, message: str) -> None:
    with pytest.raises(OpenAIError) as caught:
        completion(prompt=sent)
    assert caught.value.message == message


def test_limit_of_prompts() -> None:
    with pytest.raises(OpenAIError, match=r"^prompt: has 3 prompts, allowed: 2$"):
        CompletionRequest.parse(body("completions", prompt=["a"] * 3), RequestLimits(prompts=2))


def test_best_of_is_n() -> None:
    assert completion(n=3, best_of=3).num_choices == 3
    with pytest.raises(OpenAIError, match=r"^best_of: got 2, allowed: only the value of n, 3$"):
        completion(n=3, best_of=2)


def test_echo_is_the_prompt_of_the_choice() -> None:
    request = completion(prompt=["a", "b"], n=2, echo=True)
    assert [request.echoed(index) for index in range(4)] == ["a", "a", "b", "b"]
    assert completion().echoed(0) == ""
    with pytest.raises(OpenAIError, match=r"^echo: is not available for a prompt of token ids$"):
        completion(prompt=[1], echo=True)


def test_log_probabilities_asked_for() -> None:
    assert [completion(logprobs=count).num_top_logprobs for count in (None, 0, 5, 20)] == [None, 0, 5, 20]
    for value in (21, -1, True):
        with pytest.raises(OpenAIError, match=r"^logprobs: must be "):
            completion(logprobs=value)


def test_those_of_an_echoed_prompt_are_not_there() -> None:
    message = r"^logprobs: is not available with echo: it would need those of the prompt$"
    for count in (0, 5):
        with pytest.raises(OpenAIError, match=message):
            completion(echo=True, logprobs=count)
    assert completion(echo=False, logprobs=5).num_top_logprobs == 5
