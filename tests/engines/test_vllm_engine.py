"""vLLM itself behind the adapter, with a model whose answers are known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from engine.adapter import EngineRequest, Load, RefusedError, TokenDelta
from engine.vllm_adapter import VllmAdapter
from tests.service.successor_model import CONTEXT, write_successor_model

A, B, C, Z = b"ABCZ"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmAdapter]:
    model = write_successor_model(tmp_path_factory.mktemp("models") / "toy")
    engine = VllmAdapter(
        model_path=str(model),
        max_model_len=CONTEXT,
        max_num_seqs=1,
        kv_cache_gib=1,
        lora_modules={},
        trust_remote_code=False,
        streaming_cpu_share=0.025,
        enforce_eager=True,
    )
    engine.start()
    children = [child for child in psutil.Process().children(recursive=True) if child.name().startswith("VLLM")]
    assert len(children) == 2  # the core and its worker
    yield engine
    engine.stop()
    assert psutil.wait_procs(children, timeout=10)[1] == []  # vLLM kills its core after 5 s and does not wait for it


def take_until(engine: VllmAdapter, condition: Callable[[list[TokenDelta]], bool]) -> list[TokenDelta]:
    """All deltas until the condition holds for them."""
    deltas: list[TokenDelta] = []
    until_s = time.monotonic() + 20
    while not condition(deltas):
        assert time.monotonic() < until_s, deltas
        deltas += engine.take(0.1)
    return deltas


def has_ended(key: int) -> Callable[[list[TokenDelta]], bool]:
    return lambda deltas: any(delta.key == key and delta.finish_reason for delta in deltas)


def test_ids_go_in_and_come_out(engine: VllmAdapter) -> None:
    engine.submit(EngineRequest(1, (A,), 5, end_ids=(C,)))
    deltas = take_until(engine, has_ended(1))
    assert [token for delta in deltas for token in delta.ids] == [B, C]
    assert (deltas[-1].key, deltas[-1].finish_reason) == (1, "stop")


def test_load_tells_what_runs_and_waits_and_how_full_the_cache_is(engine: VllmAdapter) -> None:
    assert engine.load() == Load(0, 0, 0.0)
    for key in (2, 3):
        engine.submit(EngineRequest(key, (A,), CONTEXT - 1))
    take_until(engine, lambda deltas: len(deltas) > 300)
    load = engine.load()
    assert (load.running, load.waiting) == (1, 1)
    assert 0 < load.kv_usage < 0.5
    for key in (3, 2):  # one that waits, and one that runs
        engine.abort(key)
        take_until(engine, has_ended(key))
    take_until(engine, lambda _: engine.load() == Load(0, 0, 0.0))


def test_aborted_before_vllm_has_heard_of_it(engine: VllmAdapter) -> None:
    engine.submit(EngineRequest(4, (A,), CONTEXT - 1))
    engine.abort(4)
    engine.submit(EngineRequest(5, (A,), 1))
    deltas = take_until(engine, has_ended(5))  # the only place is free
    assert [delta.ids for delta in deltas if delta.key == 5] == [(B,)]


def test_refusals_come_at_once_or_as_a_delta(engine: VllmAdapter) -> None:
    with pytest.raises(RefusedError, match="lora_name: got 'x', known are none"):
        engine.submit(EngineRequest(6, (A,), 1, lora_name="x"))
    engine.submit(EngineRequest(7, (A,), 1, guide_type="regex", guide="[B-"))
    (refused,) = take_until(engine, has_ended(7))
    assert refused.finish_reason == "refused"
    assert refused.error.startswith("guided_decoding_guide: the vllm engine refused the request: ")
