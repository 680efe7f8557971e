from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritone.errors import ModelError
from tritone.model_name import LONGEST_NAME, default_name, triton_name


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/models/Qwen2.5-0.5B-Instruct-Q4_K_M.gguf", "qwen2.5-0.5b-instruct-q4_k_m"),
        ("/models/Llama 3 (chat)/", "llama-3-chat"),
        ("/models/a/../SmolLM2", "smollm2"),
        ("/models/org--模型-7b", "org-7b"),
        ("/models/..hidden..", "hidden"),
        ("/models/模型", "model-c98e118e"),
        ("/", "model-e3b0c442"),
    ],
)
def test_default_name_comes_from_the_file_or_folder(path: str, expected: str) -> None:
    assert default_name(Path(path)) == expected


def test_long_default_names_are_cut_and_stay_apart() -> None:
    one, other = (default_name(Path("/" + "x" * 200 + end)) for end in "ab")
    assert one != other
    assert len(one) == len(other) == LONGEST_NAME


@pytest.mark.parametrize("name", ["smollm2", "Qwen2.5-7B", "a", "9", "a..b", "x" * 128])
def test_safe_served_names_stay_as_they_are(name: str) -> None:
    assert triton_name(name) == name


@pytest.mark.parametrize(
    ("name", "expected"),
    [("org/模型-7b v1", "org-7b-v1-e8f3448a"), ("org/a", "org-a"), ("org a", "org-a"), ("模型", "model-c98e118e")],
)
def test_other_served_names_get_a_safe_name_of_their_own(name: str, expected: str) -> None:
    assert triton_name(name).startswith(expected)
    assert triton_name("org/a") != triton_name("org a") != "org-a"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "the model name is empty"),
        ("  ", "the model name is empty"),
        ("x" * 300, "the model name has 300 characters; at most 128 are allowed"),
        ("..", r"the model name '\.\.' is not allowed"),
        ("a/../b", "no part between slashes may be empty"),
        ("a\\..\\b", "is not allowed"),
        ("/etc", "is not allowed"),
        ("a//b", "is not allowed"),
        ("a\nb", "no control characters"),
        ("a\x00b", "no control characters"),
    ],
)
def test_names_that_no_model_can_have_are_refused(name: str, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        triton_name(name)


@given(st.text(max_size=200))
def test_a_name_is_refused_or_safe(name: str) -> None:
    try:
        safe = triton_name(name)
    except ModelError:
        return
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", safe)
    assert len(safe) <= LONGEST_NAME
    assert triton_name(safe) == safe
