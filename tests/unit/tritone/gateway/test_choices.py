"""Choices are told as they come, refused as one, and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

import pytest

from tritone.gateway.choices import Choices, Indexed
from tritone.gateway.ensemble_client import EnsembleError
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.request_record import RequestRecord

from .fake_ensemble import ENDLESS, FakeEnsemble, record
from .sample_requests import event

T = TypeVar("T")

A, B = event("a", 1, sent=3), event("b", 2, "length", 3)
REFUSED = EnsembleError(400, "text_input: too long")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 5))


def choices(ensemble: FakeEnsemble, count: int, n: int = 1, of: RequestRecord | None = None) -> Choices:
    inputs = [{"text_input": str(index)} for index in range(count)]
    return Choices(ensemble, GatewayMetrics(), of or record(), "m", inputs, n)  # type: ignore[arg-type]


async def all_of(found: Choices) -> list[Indexed]:
    async with aclosing(found.events()) as events:
        return [item async for item in events]


async def first_of(found: Choices) -> Indexed:
    """The first events, after which it is closed, as when the client leaves."""
    async with aclosing(found.events()) as events:
        return await anext(events)


def test_one_choice_is_passed_on_and_counted() -> None:
    ensemble, kept = FakeEnsemble([[A], [B]]), record()
    kept.trace_headers = {"traceparent": "t"}
    assert run(all_of(choices(ensemble, 1, of=kept))) == [(0, [A]), (0, [B])]
    assert ensemble.asked == [("m", {"text_input": "0"}, "unique", {"traceparent": "t"})]
    assert (kept.num_prompt_tokens, kept.num_generation_tokens, kept.finish_reasons) == (3, 2, ["length"])


def test_choices_are_merged_under_ids_of_their_own() -> None:
    ensemble, kept = FakeEnsemble(*[[[A], 0.01 * index, [B]] for index in range(4)]), record()
    told = run(all_of(choices(ensemble, 4, 2, kept)))
    for index in range(4):
        assert [events for at, events in told if at == index] == [[A], [B]]
    assert [asked[2] for asked in ensemble.asked] == ["unique", "unique-1", "unique-2", "unique-3"]
    assert kept.num_prompt_tokens == 6  # two prompts of three, each counted once
    assert (kept.num_generation_tokens, len(kept.finish_reasons)) == (8, 4)
    assert (ensemble.running, ensemble.cancelled) == (set(), [])


def test_a_refused_prompt_comes_before_anything_of_the_others() -> None:
    ensemble = FakeEnsemble([[A], ENDLESS], [0.05, REFUSED], [[A], ENDLESS])
    with pytest.raises(EnsembleError, match="too long"):
        run(first_of(choices(ensemble, 3)))
    assert sorted(ensemble.cancelled) == ["unique", "unique-2"]


def test_only_one_choice_of_each_prompt_is_waited_for() -> None:
    ensemble = FakeEnsemble([[A], ENDLESS], [ENDLESS], [ENDLESS], [0.01, [A], ENDLESS])
    assert run(first_of(choices(ensemble, 4, 2))) == (0, [A])


@pytest.mark.parametrize("error", [REFUSED, ValueError("internal")])
def test_one_that_fails_later_ends_all(error: Exception) -> None:
    ensemble = FakeEnsemble([[A], ENDLESS], [[A], 0.01, error])
    with pytest.raises(type(error)):
        run(all_of(choices(ensemble, 2)))
    assert (ensemble.running, "unique" in ensemble.cancelled) == (set(), True)


@pytest.mark.parametrize("count", [1, 3])
def test_closed_early_it_ends_every_choice(count: int) -> None:
    ensemble = FakeEnsemble(*[[[A], ENDLESS]] * count)
    assert run(first_of(choices(ensemble, count)))[1] == [A]
    assert (ensemble.running, len(ensemble.cancelled)) == (set(), count)


@pytest.mark.parametrize("count", [1, 3])
def test_cancelled_while_waiting_it_ends_every_choice(count: int) -> None:
    ensemble = FakeEnsemble(*[[ENDLESS]] * count)

    async def wait_and_leave() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(all_of(choices(ensemble, count)), 0.05)

    run(wait_and_leave())
    assert (ensemble.running, len(ensemble.cancelled)) == (set(), count)


def test_a_reader_that_does_not_read_holds_the_choices_back() -> None:
    """At most what fits the queue between is taken from the ensemble ahead of the reader."""
    steps = [[event("x", number + 1, sent=1)] for number in range(1000)]
    taken = [0]

    class Counting(FakeEnsemble):
        async def generate(self, *args: Any, **kwargs: Any) -> Any:
            async for events in super().generate(*args, **kwargs):
                taken[0] += 1
                yield events

    async def read_one() -> None:
        async with aclosing(choices(Counting(steps, steps), 2).events()) as events:
            await anext(events)
            await asyncio.sleep(0.05)
            assert taken[0] < 10

    run(read_one())
