from __future__ import annotations

from dataclasses import fields as dataclass_fields

import numpy as np
import pytest

from preprocess.errors import InvalidRequest
from preprocess.fields import READERS, RequestFields, did_you_mean, read_fields


def test_every_field_has_a_reader() -> None:
    assert {field.name for field in dataclass_fields(RequestFields)} == set(READERS)


def test_nothing_sent_is_none_everywhere() -> None:
    assert read_fields({}) == RequestFields()


def test_tensors_become_python_values() -> None:
    fields = read_fields(
        {
            "text_input": [b"h\xc3\xa9llo\x00"],
            "max_tokens": np.array([[7]], np.int32),
            "seed": np.array([[2**64 - 1]], np.uint64),
            "stream": np.array([[True]]),
            "temperature": np.array([[0.5]], np.float32),
            "stop_words": np.array([b"a", b""], dtype=object),
        }
    )
    assert fields.text_input == "héllo\x00"
    assert (fields.max_tokens, fields.seed, fields.temperature) == (7, 2**64 - 1, 0.5)
    assert fields.stream is True
    assert fields.stop_words == ["a", ""]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("text_input", [b"\xff\xfeA"], "text_input: is not UTF-8: byte 0 is 0xff"),
        ("text_input", [b"ok\xed\xa0\xbd"], "text_input: is not UTF-8: byte 2 is 0xed"),
        ("stop_words", [b"ok", b"\x80"], "stop_words: is not UTF-8: byte 0 is 0x80"),
        ("messages", [b"\xc3"], "messages: is not UTF-8: byte 0 is 0xc3"),
        ("text_input", [b"a", b"b"], "text_input: takes one value, got 2"),
        ("text_input", [], "text_input: takes one value, got 0"),
        ("max_tokens", np.array([1, 2], np.int32), "max_tokens: takes one value, got 2"),
        ("max_token", np.array([1], np.int32), "max_token: is not an input of this model; did you mean max_tokens?"),
    ],
)
def test_what_cannot_be_read_is_named(name: str, value: object, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_fields({name: value})
    assert str(caught.value) == text


def test_a_hint_needs_some_likeness() -> None:
    assert did_you_mean("temprature") == "; did you mean temperature?"
    assert did_you_mean("stop") == "; did you mean stop_words?"
    assert did_you_mean("logprobs") == "; did you mean return_log_probs?"
    assert did_you_mean("guided_json") == "; did you mean guided_decoding_guide?"
    assert did_you_mean("zzz") == ""
