"""vLLM's terms for ours, and back; the engine itself is tested through Triton, in tests/service."""

from __future__ import annotations

from typing import Any

import pytest
import vllm
from vllm.config import CacheConfig
from vllm.logprobs import Logprob
from vllm.outputs import CompletionOutput

from engine.adapter import EngineRequest, RefusedError, TokenDelta, TokenLogprob
from engine.vllm_adapter import GIB, first_reason, kv_cache_bytes, make_engine_args, sampling_params, to_delta


def request(**fields: Any) -> EngineRequest:
    return EngineRequest(**{"key": 1, "prompt_ids": (5, 6), "max_tokens": 8, **fields})


def output(ids: list[int], reason: str | None = None, logprobs: Any = None) -> CompletionOutput:
    return CompletionOutput(0, "", ids, None, logprobs, finish_reason=reason)


def test_every_field_of_a_request_reaches_vllm() -> None:
    made = sampling_params(
        request(
            min_tokens=2,
            end_ids=(7, 8),
            stop_sequences=((9,), (10, 11)),
            bad_sequences=((12,), (13, 14)),
            temperature=0.5,
            top_k=3,
            top_p=0.25,
            min_p=0.125,
            repetition_penalty=1.5,
            presence_penalty=-1.0,
            frequency_penalty=2.0,
            seed=2**63 + 7,
            top_logprobs=4,
        )
    )
    assert (made.max_tokens, made.min_tokens, made.stop_token_ids, made.ignore_eos) == (8, 2, [7, 8, 9], True)
    assert made.bad_words_token_ids == [[12], [13, 14]]
    assert (made.temperature, made.top_k, made.top_p, made.min_p) == (0.5, 3, 0.25, 0.125)
    assert (made.repetition_penalty, made.presence_penalty, made.frequency_penalty) == (1.5, -1.0, 2.0)
    assert (made.seed, made.logprobs, made.detokenize) == (2**63 + 7, 4, False)


def test_a_greedy_request_needs_no_seed_and_one_without_an_end_no_least_length() -> None:
    made = sampling_params(request(seed=5, min_tokens=3))
    assert (made.temperature, made.seed, made.min_tokens, made.logprobs) == (0.0, None, 0, None)
    assert made.structured_outputs is None


@pytest.mark.parametrize(
    ("guide_type", "guide", "name", "value"),
    [
        ("json", "", "json_object", True),
        ("json_schema", '{"type": "object"}', "json", '{"type": "object"}'),
        ("regex", "[a-z]+", "regex", "[a-z]+"),
        ("ebnf_grammar", 'root ::= "a"', "grammar", 'root ::= "a"'),
        ("choice", '["yes", "no"]', "choice", ["yes", "no"]),
    ],
)
def test_guides(guide_type: str, guide: str, name: str, value: Any) -> None:
    made = sampling_params(request(guide_type=guide_type, guide=guide)).structured_outputs
    assert made is not None
    assert getattr(made, name) == value


def test_what_vllm_has_made_since_the_last_time() -> None:
    assert to_delta(1, output([3, 4]), None) == TokenDelta(1, (3, 4))
    assert to_delta(1, output([], "abort"), None) == TokenDelta(1, (), "abort")
    assert to_delta(1, output([7], "stop"), None) == TokenDelta(1, (7,), "stop")
    assert to_delta(1, output([7], "length"), None) == TokenDelta(1, (7,), "length")
    assert to_delta(1, output([], "error"), None) == TokenDelta(1, (), "error", "the engine failed")


def test_log_probabilities_are_the_likeliest_whether_or_not_the_chosen_one_is_among_them() -> None:
    chosen_is_third = {5: Logprob(-3.0, 3), 8: Logprob(-0.5, 1), 9: Logprob(-1.0, 2)}
    chosen_is_first = {8: Logprob(-0.5, 1), 9: Logprob(-1.0, 2)}
    delta = to_delta(1, output([5, 8], None, [chosen_is_third, chosen_is_first]), 2)
    top = ((8, -0.5), (9, -1.0))
    assert delta.logprobs == (TokenLogprob(-3.0, top), TokenLogprob(-0.5, top))
    alone = to_delta(1, output([5], None, [{5: Logprob(-3.0, 3)}]), 0)
    assert alone.logprobs == (TokenLogprob(-3.0, ()),)


MODEL = {"model_path": "m", "max_num_seqs": 4, "kv_cache_gib": 2, "lora_modules": {}}


def test_engine_arguments_are_passed_by_name() -> None:
    made = make_engine_args(**MODEL, dtype="float32", enforce_eager=True)
    assert (made.model, made.max_num_seqs, made.dtype, made.enforce_eager) == ("m", 4, "float32", True)
    assert (made.kv_cache_memory_bytes, made.enable_lora) == (2 * GIB, False)
    assert (made.generation_config, made.disable_log_stats) == ("vllm", True)


def test_a_cpu_computes_in_bfloat16_unless_told_otherwise() -> None:
    assert make_engine_args(**MODEL).dtype == "bfloat16"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu_memory_utilisation", r"did you mean gpu_memory_utilization\?"),
        ("qwertz", rf"^qwertz is no setting of vLLM {vllm.__version__}$"),
        ("model", "^model is no setting: Tritone decides it$"),
        ("generation_config", "^generation_config is no setting"),
    ],
)
def test_settings_that_vllm_does_not_have_are_refused_by_name(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_engine_args(**MODEL, **{name: 1})


def test_a_cpu_has_a_small_kv_cache_unless_told_otherwise() -> None:
    assert kv_cache_bytes(0, {}) == GIB
    assert kv_cache_bytes(3, {}) == 3 * GIB
    assert kv_cache_bytes(0, {"gpu_memory_utilization": 0.5}) is None


def test_a_wrong_value_is_told_in_one_line() -> None:
    with pytest.raises(ValueError, match="gpu_memory_utilization") as refused:
        CacheConfig(gpu_memory_utilization=3)
    assert first_reason(refused.value).startswith("gpu_memory_utilization: Input should be less than or equal to 1")
    assert first_reason(RuntimeError("it failed\nbecause")) == "it failed"
    assert first_reason(RuntimeError()) == "RuntimeError"


def test_what_vllm_refuses_is_told_with_its_reason() -> None:
    with pytest.raises(RefusedError, match="the vllm engine refused the request: temperature must be in"):
        sampling_params(request(temperature=2.5))
    with pytest.raises(RefusedError, match=r"^guided_decoding_guide: the vllm engine refused"):
        sampling_params(request(guide_type="json", temperature=2.5))
