"""Every refusal of the table names its field and its engine, and nothing else is refused."""

from __future__ import annotations

from typing import Any

import pytest

from engine.adapter import EngineRequest, RefusedError
from engine.adapters import ADAPTERS
from engine.capabilities import REFUSED, check_supported

ASKING: dict[str, dict[str, Any]] = {
    "bad_words": {"bad_sequences": ((7, 8),)},
    "return_log_probs": {"top_logprobs": 0},
    "guided_decoding_guide_type": {"guide_type": "regex", "guide": "[a-z]+"},
    "lora_name": {"lora_name": "pirate"},
    "temperature": {"temperature": 2.5},
}


def request(**fields: Any) -> EngineRequest:
    return EngineRequest(1, (5,), 1, **fields)


@pytest.mark.parametrize(("engine", "field"), [(engine, field) for engine in REFUSED for field in REFUSED[engine]])
def test_refusals_name_field_engine_and_reason(engine: str, field: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        check_supported(engine, request(**ASKING[field]))
    assert str(refusal.value) == f"{field}: the {engine} engine {REFUSED[engine][field]}"


@pytest.mark.parametrize(("engine", "field"), [(engine, field) for engine in REFUSED for field in ASKING])
def test_nothing_else_is_refused(engine: str, field: str) -> None:
    if field not in REFUSED[engine]:
        check_supported(engine, request(**ASKING[field]))


@pytest.mark.parametrize("engine", REFUSED)
def test_what_does_not_ask_for_anything_special_is_taken(engine: str) -> None:
    check_supported(engine, request(seed=3, temperature=0.5, stop_sequences=((1, 2),), min_tokens=1))


def test_every_engine_has_its_row() -> None:
    assert set(ADAPTERS) <= set(REFUSED)
