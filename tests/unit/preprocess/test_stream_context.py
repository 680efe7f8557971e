from __future__ import annotations

import json

import pytest

from preprocess.errors import InvalidRequest
from preprocess.fields import RequestFields
from preprocess.stream_context import is_echo, stream_context


def test_defaults_are_written_out() -> None:
    text = stream_context(
        RequestFields(),
        stop=["é\n"],
        is_stream=True,
        has_logprobs=False,
        end_ids=(2, 257),
        min_tokens=4,
        num_input_tokens=3,
    )
    assert text.isascii()
    assert json.loads(text) == {
        "stop": ["é\n"],
        "include_stop": False,
        "skip_special": True,
        "stream": True,
        "logprobs": False,
        "end_ids": [2, 257],
        "min_tokens": 4,
        "num_input_tokens": 3,
        "echo_text": "",
        "echo_ids": [],
    }


def test_what_the_client_says_is_written_out() -> None:
    fields = RequestFields(include_stop_str_in_output=True, skip_special_tokens=False)
    text = stream_context(
        fields,
        stop=[],
        is_stream=False,
        has_logprobs=True,
        end_ids=(),
        min_tokens=0,
        num_input_tokens=1,
        echo_text="\x00",
        echo_ids=[4],
    )
    context = json.loads(text)
    assert (context["include_stop"], context["skip_special"], context["stream"]) == (True, False, False)
    assert context["logprobs"] is True
    assert (context["echo_text"], context["echo_ids"]) == ("\x00", [4])


@pytest.mark.parametrize(("exclude", "expected"), [(None, False), (True, False), (False, True)])
def test_the_prompt_is_echoed_only_when_asked(exclude: bool | None, expected: bool) -> None:
    assert is_echo(RequestFields(exclude_input_in_output=exclude), is_stream=False) is expected


def test_a_stream_never_echoes() -> None:
    assert is_echo(RequestFields(exclude_input_in_output=True), is_stream=True) is False
    with pytest.raises(InvalidRequest) as caught:
        is_echo(RequestFields(exclude_input_in_output=False), is_stream=True)
    assert str(caught.value) == "exclude_input_in_output: false (echo the prompt) needs stream=false"
