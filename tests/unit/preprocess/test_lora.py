from __future__ import annotations

import pytest

from preprocess.errors import InvalidRequest
from preprocess.fields import RequestFields
from preprocess.lora import read_lora_name


def test_the_name_is_the_engines_to_know() -> None:
    assert read_lora_name(RequestFields()) == ""
    assert read_lora_name(RequestFields(lora_name="any thing")) == "any thing"


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"^lora_name: is empty; leave it out for the model as it is$"):
        read_lora_name(RequestFields(lora_name=""))
