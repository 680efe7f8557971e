"""Framing that no naive client splits in the wrong place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritone.gateway import sse


@pytest.mark.parametrize(
    "text", ["\n\n", "\r\n", "\r", "data: x", "\u2028", "\u2029", "\u0085", "\u0000", '"', "\\", "😀"]
)
def test_one_event_is_one_line_and_a_blank_one(text: str) -> None:
    framed = sse.event({"text": text})
    assert framed.decode("ascii").splitlines() == [framed.decode().rstrip("\n"), ""]
    assert framed.startswith(b"data: {")
    assert json.loads(framed[6:]) == {"text": text}


@settings(max_examples=50)
@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert json.loads(sse.event({"text": text}).removeprefix(b"data: ").removesuffix(b"\n\n")) == {"text": text}


def test_constants() -> None:
    assert sse.DONE == b"data: [DONE]\n\n"
    assert sse.KEEP_ALIVE == b": keep-alive\n\n"
    assert sse.CONTENT_TYPE == "text/event-stream; charset=utf-8"
