from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from preprocess.pipeline import Pipeline
from tests.toy_tokenizers import BLANK_HELLO, BOS
from tests.unit.preprocess.toy_models import chat, prepared, prompt_text, refusal, request


def ids(pipeline: Pipeline, **fields: Any) -> list[int]:
    answer = prepared(pipeline, request(**fields))
    assert answer.input_ids.dtype == np.int32
    listed: list[int] = answer.input_ids.tolist()
    return listed


def test_a_text_is_tokenized_whole(byte_level: Pipeline) -> None:
    assert ids(byte_level, text_input="he\x00llo") == [104, 101, 0, 108, 108, 111]


def test_given_ids_are_taken_as_they_are(byte_level: Pipeline) -> None:
    assert ids(byte_level, input_ids=[5, 319, 0]) == [5, 319, 0]


def test_a_chat_is_rendered_then_tokenized(byte_level: Pipeline) -> None:
    assert prompt_text(byte_level, chat(("user", "😀"))) == "[user]😀<|im_end|>[assistant]"


def test_there_is_one_bos_however_the_prompt_comes(with_bos: Pipeline) -> None:
    assert ids(with_bos, text_input="Hello") == [BOS, BLANK_HELLO]
    assert ids(with_bos, text_input="<s>Hello").count(BOS) == 1
    assert ids(with_bos, messages=[{"role": "user", "content": "Hello"}]).count(BOS) == 1


def test_an_empty_text_needs_a_bos(with_bos: Pipeline, byte_level: Pipeline) -> None:
    assert ids(with_bos, text_input="") == [BOS]
    assert refusal(byte_level, request(text_input="")) == "text_input: the prompt has no tokens"
    assert refusal(byte_level, request(input_ids=[])) == "input_ids: the prompt has no tokens"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "text_input: no prompt: send one of text_input, messages and input_ids"),
        (
            {"text_input": "a", "input_ids": [1]},
            "input_ids: sent together with text_input; send one of text_input, messages and input_ids",
        ),
        ({"text_input": "a", "tools": []}, "tools: goes with messages only, the prompt came as text_input"),
        (
            {"input_ids": [1], "continue_final_message": False},
            "continue_final_message: goes with messages only, the prompt came as input_ids",
        ),
        ({"input_ids": [5, 320]}, "input_ids: has token id 320, allowed: 0 to 319"),
        ({"input_ids": [-1]}, "input_ids: has token id -1, allowed: 0 to 319"),
        ({"text_input": "x" * 769}, "text_input: the prompt has 769 characters, allowed: 768"),
        ({"text_input": "x" * 768}, "text_input: the prompt has 768 tokens, allowed: 63 (context 64, answer 1)"),
        ({"messages": b'[{"role": "user", "content": "\\ud83d"}]'}, "messages: has half of a surrogate pair"),
        ({"messages": []}, "messages: is an empty list, needs at least one message"),
        (
            {
                "messages": [{"role": "assistant", "content": "a"}],
                "continue_final_message": True,
                "add_generation_prompt": True,
            },
            "continue_final_message: contradicts add_generation_prompt=true; send one of them",
        ),
    ],
)
def test_a_prompt_that_cannot_be_used_is_refused(byte_level: Pipeline, fields: dict[str, Any], text: str) -> None:
    assert refusal(byte_level, request(**fields)).startswith(text)


@pytest.mark.parametrize("add_generation_prompt", [None, False])
def test_continuing_implies_no_new_turn(byte_level: Pipeline, add_generation_prompt: bool | None) -> None:
    flags = {} if add_generation_prompt is None else {"add_generation_prompt": add_generation_prompt}
    one = chat(("user", "Hi"), ("assistant", "The "), continue_final_message=True, **flags)
    assert prompt_text(byte_level, one) == "[user]Hi<|im_end|>[assistant]The "
