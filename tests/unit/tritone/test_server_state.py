from __future__ import annotations

import pytest

from tritone.server_state import short_reason


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        (
            "Internal: RuntimeError: no model at /x/y\n\nAt:\n  /tmp/repo/m_engine/1/model.py(39): initialize\n",
            "RuntimeError: no model at /x/y",
        ),
        ("Internal: ValueError: two\nlines\n\nAt:\n  a(1): b\n", "ValueError: two lines"),
        ("Traceback (most recent call last):\n  File a\nKeyError: 'x'\n", "KeyError: 'x'"),
        ("Stub process 'm_engine_0_0' is not healthy.", "Stub process 'm_engine_0_0' is not healthy."),
        ("", ""),
    ],
)
def test_a_reason_without_the_places_in_the_code(reason: str, short: str) -> None:
    assert short_reason(reason) == short
