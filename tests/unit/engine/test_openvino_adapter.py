"""A request in OpenVINO's terms, and what its handles give back. The engine itself runs in the service tests."""

from __future__ import annotations

from typing import Any

import pytest

from engine.adapter import EngineRequest, TokenDelta

openvino_genai = pytest.importorskip("openvino_genai")

from engine.openvino_adapter import generation_config, read_delta  # noqa: E402


def config(**fields: Any) -> Any:
    return generation_config(EngineRequest(1, (5,), **{"max_tokens": 7, **fields}))


def test_every_field_reaches_its_place() -> None:
    made = config(
        min_tokens=3,
        end_ids=(2,),
        stop_sequences=((9,), (4, 5)),
        temperature=0.5,
        top_k=40,
        top_p=0.25,
        min_p=0.125,
        repetition_penalty=1.5,
        presence_penalty=-1.0,
        frequency_penalty=2.0,
        seed=2**64 - 1,
    )
    assert (made.max_new_tokens, made.min_new_tokens, made.ignore_eos) == (7, 3, False)
    assert (made.eos_token_id, made.stop_token_ids) == (2, {2, 9})
    assert (made.do_sample, made.temperature, made.top_k, made.top_p, made.min_p) == (True, 0.5, 40, 0.25, 0.125)
    assert (made.repetition_penalty, made.presence_penalty, made.frequency_penalty) == (1.5, -1.0, 2.0)
    assert made.rng_seed == 2**64 - 1


def test_temperature_0_is_greedy() -> None:
    made = config(temperature=0.0, top_p=0.5)
    assert not made.do_sample
    assert made.is_greedy_decoding()


def test_without_end_ids_nothing_ends_the_answer_but_its_length() -> None:
    made = config()
    assert made.ignore_eos
    assert (made.eos_token_id, made.stop_token_ids) == (0, {0})
    made.validate()


class Output:
    def __init__(self, ids: list[int], reason: Any = openvino_genai.GenerationFinishReason.NONE) -> None:
        self.generated_ids = ids
        self.finish_reason = reason


class Handle:
    """Gives the outputs it is made with, one a read."""

    def __init__(self, *outputs: Output, status: Any = openvino_genai.GenerationStatus.RUNNING) -> None:
        self._outputs = list(outputs)
        self._status = status

    def can_read(self) -> bool:
        return bool(self._outputs)

    def read(self) -> dict[int, Output]:
        return {0: self._outputs.pop(0)}

    def get_status(self) -> Any:
        return self._status


def test_outputs_read_together_make_one_delta() -> None:
    reason = openvino_genai.GenerationFinishReason.LENGTH
    assert read_delta(1, Handle(Output([4]), Output([5, 6], reason))) == TokenDelta(1, (4, 5, 6), "length")


def test_nothing_new_is_no_delta() -> None:
    assert read_delta(1, Handle()) is None


def test_request_that_does_not_fit_is_refused() -> None:
    delta = read_delta(1, Handle(status=openvino_genai.GenerationStatus.IGNORED))
    assert delta == TokenDelta(1, (), "refused", "max_tokens: the KV cache is too small for this prompt and its answer")
