from __future__ import annotations

import pytest

from preprocess.errors import InvalidRequest
from preprocess.parameters import TRITON_PARAMETERS, check_parameters


def test_what_triton_itself_reads_passes() -> None:
    check_parameters(dict.fromkeys([*TRITON_PARAMETERS, "x-request-id", "X-Tenant", "traceparent"], 1))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("temprature", "temprature: is neither an input nor a known parameter; did you mean temperature?"),
        ("max_new_tokens", "max_new_tokens: is neither an input nor a known parameter; did you mean max_tokens?"),
        ("zzz", "zzz: is neither an input nor a known parameter"),
        ("max_tokens", "max_tokens: was sent as a request parameter; send it as an input tensor"),
        ("k" * 100, "k" * 64 + ": is neither an input nor a known parameter"),
    ],
)
def test_anything_else_is_refused_by_name(key: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_parameters({"priority": 1, key: "value"})
    assert str(caught.value) == text
