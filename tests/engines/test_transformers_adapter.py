"""The transformers engine with a toy model: answers, batches, and what goes wrong."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM, MambaConfig, MambaForCausalLM, OPTConfig, OPTForCausalLM

from engine.adapter import EngineDiedError, EngineRequest, Load, RefusedError, TokenDelta
from engine.static_batch import CausalModel, left_padded
from engine.transformers_adapter import TransformersAdapter

from .toy_model import CONTEXT, VOCAB_SIZE, save_toy_model

PROMPTS = [(11, 12, 13, 14, 15, 16, 17), (90,), (40, 41, 42), (150, 3, 150, 3, 77)]

Start = Callable[..., TransformersAdapter]


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_toy_model(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def start(model_path: Path) -> Iterator[Start]:
    """Starts engines, and stops them after the test."""
    started: list[TransformersAdapter] = []

    def start_engine(**settings: Any) -> TransformersAdapter:
        defaults = {"model_path": str(model_path), "max_num_seqs": 4, "dtype": "auto", "device": "cpu"}
        defaults |= {"trust_remote_code": False, "streaming_cpu_share": 0.025, "batch_wait_s": 0.0}
        engine = TransformersAdapter(**{**defaults, **settings})
        engine.start()
        started.append(engine)
        return engine

    yield start_engine
    for engine in started:
        engine.stop()
        assert not engine._thread.is_alive()


@pytest.fixture
def steps(start: Start, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
    """Engines make so many steps as are released."""
    steps = threading.Semaphore(0)
    logits = CausalModel.logits

    def wait_for_step(*inputs: Any) -> torch.Tensor:
        assert steps.acquire(timeout=20)
        return logits(*inputs)

    monkeypatch.setattr(CausalModel, "logits", wait_for_step)
    yield steps
    steps.release(1000)  # an engine that waits could not be stopped


def submit(engine: TransformersAdapter, *requests: EngineRequest) -> None:
    """Submit requests before the engine can take any, so that they are one batch if there is room."""
    with engine._changed:
        for request in requests:
            engine.submit(request)


def deltas_of(engine: TransformersAdapter, keys: set[int], seconds: float = 20.0) -> list[TokenDelta]:
    """All deltas until the last one of every key."""
    deltas: list[TokenDelta] = []
    until_s = time.monotonic() + seconds
    while keys - {delta.key for delta in deltas if delta.finish_reason}:
        assert time.monotonic() < until_s, f"no end: {deltas}"
        deltas += engine.take(0.1)
    return deltas


def ids_of(deltas: list[TokenDelta], key: int) -> list[int]:
    return [token for delta in deltas if delta.key == key for token in delta.ids]


def answer(engine: TransformersAdapter, *requests: EngineRequest) -> list[tuple[list[int], str]]:
    """Ids and finish reason of each request, made in one batch."""
    submit(engine, *requests)
    deltas = deltas_of(engine, {request.key for request in requests})
    reasons = {delta.key: delta.finish_reason for delta in deltas}
    return [(ids_of(deltas, request.key), reasons[request.key]) for request in requests]


def greedy(model_path: Path, prompts: list[tuple[int, ...]], tokens: int, **settings: Any) -> list[list[int]]:
    """What `model.generate` makes of the prompts in one batch."""
    model = LlamaForCausalLM.from_pretrained(model_path)
    ids, mask = left_padded(prompts)
    made = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=tokens, pad_token_id=0, **settings)
    answers: list[list[int]] = made[:, ids.shape[1] :].tolist()
    return answers


def test_prompts_are_padded_on_the_left() -> None:
    ids, mask = left_padded([(5, 6, 7), (8,)])
    assert ids.tolist() == [[5, 6, 7], [0, 0, 8]]
    assert mask.tolist() == [[1, 1, 1], [0, 0, 1]]


def test_greedy_answers_are_those_of_generate(start: Start, model_path: Path) -> None:
    requests = [EngineRequest(key, prompt, 60) for key, prompt in enumerate(PROMPTS)]
    expected = greedy(model_path, PROMPTS, 60)
    assert len({tuple(ids) for ids in expected}) == len(PROMPTS)
    assert answer(start(), *requests) == [(ids, "length") for ids in expected]


def test_greedy_answer_is_that_of_its_prompt_alone_whenever_others_end(start: Start, model_path: Path) -> None:
    requests = [EngineRequest(key, prompt, 3 + 15 * key) for key, prompt in enumerate(PROMPTS)]
    expected = [greedy(model_path, [prompt], 3 + 15 * key)[0] for key, prompt in enumerate(PROMPTS)]
    assert answer(start(), *requests) == [(ids, "length") for ids in expected]


def test_penalized_answers_are_those_of_generate(start: Start, model_path: Path) -> None:
    requests = [EngineRequest(key, prompt, 60, repetition_penalty=1.5) for key, prompt in enumerate(PROMPTS)]
    expected = [greedy(model_path, [prompt], 60, repetition_penalty=1.5)[0] for prompt in PROMPTS]
    assert expected != greedy(model_path, PROMPTS, 60)
    assert answer(start(), *requests) == [(ids, "length") for ids in expected]


def test_answer_to_the_end_of_the_context_beside_a_longer_prompt(start: Start, model_path: Path) -> None:
    first = EngineRequest(1, tuple(range(100)), 1)
    second = EngineRequest(2, PROMPTS[0], CONTEXT - len(PROMPTS[0]))
    [_, (ids, reason)] = answer(start(), first, second)
    assert (ids, reason) == (greedy(model_path, [PROMPTS[0]], CONTEXT - len(PROMPTS[0]))[0], "length")


def test_row_that_is_over_stays_inside_learned_positions(start: Start, tmp_path: Path) -> None:
    config = OPTConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=16,
        ffn_dim=32,
        word_embed_proj_dim=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=32,
    )
    OPTForCausalLM(config).save_pretrained(tmp_path)
    engine = start(model_path=str(tmp_path))
    made = answer(engine, EngineRequest(1, tuple(range(5, 36)), 1), EngineRequest(2, (5,), 31))
    assert [(len(ids), reason) for ids, reason in made] == [(1, "length"), (31, "length")]


def test_seed_repeats_the_answer_beside_other_requests(start: Start) -> None:
    engine = start()
    asked = {"max_tokens": 30, "temperature": 1.5, "seed": 2**64 - 1}
    [alone] = answer(engine, EngineRequest(1, PROMPTS[0], **asked))
    others = [EngineRequest(2, PROMPTS[1], 50, temperature=1.0), EngineRequest(3, PROMPTS[2], 20)]
    [_, beside, _] = answer(engine, others[0], EngineRequest(1, PROMPTS[0], **asked), others[1])
    [another] = answer(engine, EngineRequest(1, PROMPTS[0], **{**asked, "seed": 2**64 - 2}))
    assert beside == alone
    assert another != alone


def test_end_id_is_handed_over_and_ends_the_answer(start: Start, model_path: Path) -> None:
    [made] = greedy(model_path, PROMPTS[:1], 20)
    place = next(place for place in range(5, 20) if made[place] not in made[:place])
    request = EngineRequest(1, PROMPTS[0], 20, end_ids=(made[place], 199))
    assert answer(start(), request) == [(made[: place + 1], "stop")]


def test_end_ids_do_not_come_before_min_tokens(start: Start, model_path: Path) -> None:
    [made] = greedy(model_path, PROMPTS[:1], 20)
    ends = {"end_ids": (made[0], made[2]), "stop_sequences": ((made[1],),)}
    [(ids, reason)] = answer(start(), EngineRequest(1, PROMPTS[0], 20, min_tokens=12, **ends))
    assert len(ids) >= 12
    assert not set(ids[:12]) & set(made[:3])
    assert reason == ("stop" if ids[-1] in made[:3] else "length")


def test_stop_sequence_ends_the_answer_where_it_is_complete(start: Start, model_path: Path) -> None:
    [made] = greedy(model_path, PROMPTS[:1], 20)
    request = EngineRequest(1, PROMPTS[0], 20, stop_sequences=((made[4], 0), tuple(made[7:10])))
    assert answer(start(), request) == [(made[:10], "stop")]


def test_bad_sequences_are_never_made(start: Start, model_path: Path) -> None:
    [made] = greedy(model_path, PROMPTS[:1], 20)
    bad = ((PROMPTS[0][-1], made[0]), tuple(made[4:7]))
    [first] = greedy(model_path, PROMPTS[:1], 20, bad_words_ids=[list(bad[0])])
    assert first[0] != made[0]
    [(ids, _)] = answer(start(), EngineRequest(1, PROMPTS[0], 20, bad_sequences=bad[:1]))
    assert ids == first
    [(ids, _)] = answer(start(), EngineRequest(1, PROMPTS[0], 20, bad_sequences=bad[1:]))
    assert ids[:6] == made[:6]
    assert ids[6] != made[6]


def test_log_probabilities_are_those_of_the_model(start: Start, model_path: Path) -> None:
    engine = start()
    submit(engine, EngineRequest(1, PROMPTS[0], 20, top_logprobs=3, temperature=0.5, repetition_penalty=1.3))
    deltas = deltas_of(engine, {1})
    ids = ids_of(deltas, 1)
    logits = LlamaForCausalLM.from_pretrained(model_path)(torch.tensor([[*PROMPTS[0], *ids]])).logits[0].float()
    expected = logits.log_softmax(-1)[len(PROMPTS[0]) - 1 : -1]
    for row, token, delta in zip(expected, ids, deltas, strict=True):
        [entry] = delta.logprobs
        assert entry.logprob == pytest.approx(row[token].item(), abs=1e-4)
        assert [value for _, value in entry.top] == pytest.approx(row.topk(3).values.tolist(), abs=1e-4)
        assert [token for token, _ in entry.top] == row.topk(3).indices.tolist()


def test_request_that_does_not_ask_gets_no_log_probabilities(start: Start) -> None:
    engine = start()
    submit(engine, EngineRequest(1, PROMPTS[0], 5))
    assert [delta.logprobs for delta in deltas_of(engine, {1})] == [()] * 5


def test_tokens_come_one_by_one_as_they_are_made(start: Start) -> None:
    engine = start()
    submit(engine, EngineRequest(1, PROMPTS[0], 5))
    assert [len(delta.ids) for delta in deltas_of(engine, {1})] == [1] * 5


def test_request_that_comes_during_a_batch_waits_for_its_end(start: Start, steps: threading.Semaphore) -> None:
    engine = start()
    submit(engine, EngineRequest(1, PROMPTS[0], 3))
    steps.release()
    deltas = engine.take(20)
    submit(engine, EngineRequest(2, PROMPTS[1], 2))
    assert engine.load() == Load(1, 1, 0.25)
    steps.release(4)
    deltas += deltas_of(engine, {1, 2} - {delta.key for delta in deltas if delta.finish_reason})
    assert [delta.key for delta in deltas] == [1, 1, 1, 2, 2]
    assert engine.load() == Load(0, 0, 0.0)


def test_first_request_waits_for_others_to_share_its_batch(start: Start, steps: threading.Semaphore) -> None:
    engine = start(batch_wait_s=20.0, max_num_seqs=2)
    engine.submit(EngineRequest(1, (5, 6), 3))
    assert engine.take(0.2) == []
    assert engine.load() == Load(0, 1, 0.0)
    engine.submit(EngineRequest(2, (7,), 3))
    steps.release(1)
    assert {delta.key for delta in engine.take(20) + engine.take(0.5)} == {1, 2}


def test_row_that_is_over_holds_its_place_until_the_batch_is(start: Start) -> None:
    engine = start(max_num_seqs=2)
    submit(engine, *(EngineRequest(key, PROMPTS[key], tokens) for key, tokens in ((1, 2), (2, 4), (3, 1))))
    assert [delta.key for delta in deltas_of(engine, {1, 2, 3})] == [1, 2, 1, 2, 2, 2, 3]


def test_aborted_request_ends_within_its_step_and_others_go_on(
    start: Start, steps: threading.Semaphore, model_path: Path
) -> None:
    engine = start()
    submit(engine, EngineRequest(1, PROMPTS[1], 9), EngineRequest(2, PROMPTS[2], 9))
    steps.release()
    deltas = engine.take(20)
    engine.abort(1)
    assert engine.load() == Load(1, 0, 0.25)
    steps.release(8)
    deltas += deltas_of(engine, {2})
    assert [(len(delta.ids), delta.finish_reason) for delta in deltas if delta.key == 1] == [(1, ""), (0, "abort")]
    assert ids_of(deltas, 2) == greedy(model_path, [PROMPTS[2]], 9)[0]


def test_batch_whose_requests_are_all_aborted_is_over(start: Start, steps: threading.Semaphore) -> None:
    engine = start()
    submit(engine, EngineRequest(1, PROMPTS[0], 100))
    steps.release()
    assert len(engine.take(20)) == 1
    engine.abort(1)
    assert engine.load() == Load(0, 0, 0.0)
    assert engine.take(20) == [TokenDelta(1, (), "abort")]
    steps.release(4)  # one that was under way, and three
    assert [len(ids) for ids, _ in answer(engine, EngineRequest(1, PROMPTS[1], 3))] == [3]


def test_aborted_request_that_waits_is_never_run(start: Start, steps: threading.Semaphore) -> None:
    engine = start()
    submit(engine, EngineRequest(1, PROMPTS[0], 2))
    steps.release()
    assert len(engine.take(20)) == 1
    submit(engine, EngineRequest(2, PROMPTS[1], 3))
    engine.abort(2)
    assert engine.load() == Load(1, 0, 0.25)
    steps.release(10)
    deltas = deltas_of(engine, {1, 2})
    assert [delta for delta in deltas if delta.key == 2] == [TokenDelta(2, (), "abort")]
    assert engine.take(0.05) == []


def test_abort_of_what_is_over_is_nothing(start: Start) -> None:
    engine = start()
    answer(engine, EngineRequest(1, PROMPTS[0], 2))
    engine.abort(1)
    engine.abort(77)
    assert engine.take(0.05) == []


def test_engine_stops_in_the_middle_of_an_answer(start: Start) -> None:
    engine = start()
    submit(engine, EngineRequest(1, PROMPTS[0], CONTEXT - 10))
    assert engine.take(20)
    engine.stop()
    assert not engine._thread.is_alive()


def test_error_in_a_step_ends_its_batch_only(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = start(max_num_seqs=2)
    forward, calls = LlamaForCausalLM.forward, iter(range(1000))

    def run_out_of_memory(*args: Any, **inputs: Any) -> Any:
        if next(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory: secret numbers")
        return forward(*args, **inputs)

    monkeypatch.setattr(LlamaForCausalLM, "forward", run_out_of_memory)
    submit(engine, *(EngineRequest(key, PROMPTS[key], 4) for key in (1, 2, 3)))
    deltas = deltas_of(engine, {1, 2, 3})
    message = "the engine failed in a step (OutOfMemoryError)"
    assert [len(ids_of(deltas, key)) for key in (1, 2, 3)] == [2, 2, 4]
    assert deltas[4:6] == [TokenDelta(1, (), "error", message), TokenDelta(2, (), "error", message)]
    assert engine.load() == Load(0, 0, 0.0)


def test_row_whose_logits_are_not_numbers_fails_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = start()
    logits = CausalModel.logits

    def bad_first_row(model: CausalModel, ids: torch.Tensor, *others: Any) -> torch.Tensor:
        made = logits(model, ids, *others)
        made[ids[:, -1] == 90] = float("nan")
        return made

    monkeypatch.setattr(CausalModel, "logits", bad_first_row)
    bad, good = answer(engine, EngineRequest(1, (90,), 5), EngineRequest(2, PROMPTS[0], 5))
    assert bad == ([], "error")
    assert (len(good[0]), good[1]) == (5, "length")


def test_dead_device_is_the_end_of_the_engine(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(model: CausalModel, *others: Any) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    engine = start()
    monkeypatch.setattr(CausalModel, "logits", fail)
    monkeypatch.setattr(CausalModel, "check_device", fail)
    submit(engine, EngineRequest(1, PROMPTS[0], 5))
    assert deltas_of(engine, {1}) == [TokenDelta(1, (), "error", "the engine failed in a step (RuntimeError)")]
    with pytest.raises(EngineDiedError, match=r"^the device failed \(RuntimeError\)$"):
        engine.take(10)


@pytest.mark.parametrize("token", [-1, VOCAB_SIZE])
def test_ids_outside_the_vocabulary_are_refused(start: Start, token: int) -> None:
    engine = start()
    with pytest.raises(RefusedError, match=f"^input_ids: got {token}, allowed: 0 to {VOCAB_SIZE - 1}$"):
        submit(engine, EngineRequest(1, (5, token), 5))
    assert engine.load() == Load(0, 0, 0.0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_have_the_type_that_was_set(start: Start, dtype: str) -> None:
    engine = start(dtype=dtype)
    assert engine._model._model.dtype == getattr(torch, dtype)
    assert len(answer(engine, EngineRequest(1, PROMPTS[1], 3, top_logprobs=1))[0][0]) == 3


def test_missing_folder_is_a_sentence(start: Start, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=f"^model_path: there is no config.json in {tmp_path}/none$"):
        start(model_path=f"{tmp_path}/none")


def test_folder_that_is_no_model_is_a_sentence(start: Start, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "teapot"}))
    with pytest.raises(RuntimeError) as raised:
        start(model_path=str(tmp_path))
    assert str(raised.value).startswith(f"model_path: {tmp_path} cannot be loaded on cpu (ValueError: ")
    assert "\n" not in str(raised.value)


def test_device_that_is_not_there_is_a_sentence(start: Start, model_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"cannot be loaded on nonsense \(RuntimeError: Expected one of cpu, cuda"):
        start(device="nonsense")


def test_model_without_a_kv_cache_is_refused(start: Start, tmp_path: Path) -> None:
    MambaForCausalLM(MambaConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1)).save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match=r"^model_path: MambaForCausalLM has no KV cache, which this engine needs$"):
        start(model_path=str(tmp_path))
