from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_engines.checkpoint import Checkpoint
from build_engines.errors import BuildError
from build_engines.gpus import GIB, GPUS, MIB, Gpu, find_gpu
from build_engines.plan import TOKENS_PER_BLOCK, Options, Plan, make_plan, other_plans
from tests.unit.build_engines.folders import checkpoint, published, toy
from tests.unit.build_engines.test_architecture import PUBLISHED

H100 = find_gpu("h100")
A100 = find_gpu("a100")
QWEN = {
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "num_hidden_layers": 28,
    "hidden_size": 1536,
    "intermediate_size": 12 * 700,
}
MHA_52 = {"num_attention_heads": 52, "num_key_value_heads": 52, "head_dim": 128}


def quantized(method: str, **more: Any) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": method, **more}}


def planned(model: Checkpoint, **options: Any) -> Plan:
    return make_plan(model, Options(**{"gpu": H100, **options}))


def refusal(model: Checkpoint, **options: Any) -> str:
    with pytest.raises(BuildError) as caught:
        planned(model, **options)
    return str(caught.value)


def test_the_parts_make_up_the_card() -> None:
    plan = planned(published("Llama-3.1-8B-Instruct"), tp=1)
    memory = plan.memory
    assert memory.weights == 2 * 8_030_261_248
    assert memory.weights + memory.activations + memory.runtime + memory.kv_cache + memory.free == H100.memory
    left = memory.kv_cache + memory.free
    assert 0.9 * left - 32 * 131_072 < memory.kv_cache <= 0.9 * left
    assert (plan.kv_bytes_per_token, plan.kv_tokens) == (131_072, memory.kv_cache // 131_072)


@pytest.mark.parametrize("dtype", ["fp8", "int8"])
def test_b71_8_bits_halve_the_cache(dtype: str) -> None:
    assert planned(checkpoint(toy()), kv_dtype=dtype).kv_bytes_per_token == 131_072 // 2


@pytest.mark.parametrize("tp", [1, 2, 4, 6, 12])
def test_b76_legal_sizes_of_tensor_parallelism(tp: int) -> None:
    plan = planned(checkpoint(toy(**QWEN)), tp=tp)
    assert plan.kv_bytes_per_token == 28 * max(2 // tp, 1) * 2 * 128 * 2  # 14,336 from tp 2 on


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        (QWEN, {"tp": 3}, r"tp: 3 does not divide num_key_value_heads \(2\); this model allows 1, 2, 4, 6, 12"),
        (QWEN, {"tp": 8}, r"tp: 8 does not divide num_attention_heads \(12\); this model allows 1, 2, 4, 6, 12"),
        (
            {"num_attention_heads": 28, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 28 * 512},
            {"tp": 8},
            r"tp: 8 does not divide num_attention_heads \(28\); this model allows 1, 2, 4, 28",
        ),
        (MHA_52, {"tp": 3}, "tp: 3 does not divide num_attention_heads"),
        (MHA_52, {"tp": 8}, "tp: 8 does not divide num_attention_heads"),
        (
            {"intermediate_size": 14338},
            {"tp": 4},
            r"tp: 4 does not divide intermediate_size \(14338\); this model allows 1, 2",
        ),
        ({}, {"tp": 0}, "tp: 0 is not a number of GPUs; this model allows 1, 2, 4, 8, 16, 32"),
        ({}, {"tp": 4, "gpus": 2}, "tp: 4 needs as many GPUs, there are 2; this model allows"),
        (
            {"num_local_experts": 256, "num_experts_per_tok": 8},
            {"tp": 4, "ep": 3},
            r"ep: 3 must divide tp \(4\) and the experts; this model has 256 experts, so it allows 1, 2, 4",
        ),
        (
            {},
            {"tp": 4, "ep": 2},
            r"ep: 2 must divide tp \(4\) and the experts; this model has no experts, so it allows 1",
        ),
        ({}, {"dtype": "float8"}, "dtype: 'float8' is not known; known: auto, float16, bfloat16, float32"),
        ({}, {"quant": "int3"}, "quant: 'int3' is not known; known: none, fp8, int8_sq"),
        ({}, {"kv_dtype": "fp4"}, "kv_dtype: 'fp4' is not known; known: auto, fp8, int8"),
        (
            {},
            {"quant": "fp8", "gpu": A100},
            "quant: fp8 needs SM 89 or newer, this GPU is SM 80; it runs int8_sq, int8_wo, int4_awq",
        ),
        ({}, {"kv_dtype": "fp8", "gpu": A100}, "kv_dtype: fp8 needs SM 89 or newer, this GPU is SM 80; int8 halves"),
        ({}, {"quant": "nvfp4"}, "quant: nvfp4 needs SM 100 or newer, this GPU is SM 90; it runs fp8, "),
        (
            {},
            {"dtype": "bfloat16", "gpu": find_gpu("2080ti")},
            "dtype: bfloat16 needs SM 80 or newer, this GPU is SM 75; use --dtype float16",
        ),
        ({}, {"max_model_len": 32769}, r"max_model_len: 32769 is beyond the model's 32768 .*rope_scaling"),
        (
            {},
            {"max_input_len": 4096, "max_model_len": 4096},
            "max_input_len: 4096 leaves no token for an answer: max_model_len is 4096",
        ),
        ({}, {"max_num_seqs": 64, "max_num_tokens": 32}, "max_num_tokens: 32 is less than max_num_seqs 64"),
        ({}, {"max_num_seqs": 0}, "max_num_seqs: 0 is less than 1"),
        ({}, {"kv_fraction": 1.0}, r"kv_fraction: 1\.0 is not between 0 and 1"),
        ({"max_position_embeddings": None}, {}, r"max_model_len: config\.json has no max_position_embeddings"),
        (quantized("gptq", bits=4), {"quant": "fp8"}, "quant: fp8 asked for, but the model is quantized with gptq"),
        (quantized("fp8"), {"gpu": A100}, "model: fp8 needs SM 89 or newer"),
        (
            quantized("bitsandbytes"),
            {},
            "model: it is quantized with bitsandbytes, 4 bits, which is not planned for; known: awq, fp8, gptq, mxfp4",
        ),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    assert re.match(message, refusal(checkpoint(toy(**changes)), **options))


def test_too_large_a_model_is_refused_with_what_fits() -> None:
    assert refusal(published("Llama-3.1-70B-Instruct"), tp=1) == (
        "the model does not fit: of one GPU's 79.6 GiB its weights take 131.4 GiB at tp 1; what would fit: "
        "--tp 1 --quant fp8; --tp 1 --quant int8_sq; --tp 1 --quant int8_wo; --tp 1 --quant int4_awq; "
        "--tp 1 --quant w4a8_awq; --tp 2"
    )
    assert refusal(published("Llama-3.1-70B-Instruct"), gpu=find_gpu("4090"), gpus=1).endswith("nothing on this GPU")


def test_too_long_a_context_is_refused_with_one_that_fits() -> None:
    model = published("Llama-3.1-8B-Instruct")
    message = refusal(model, gpu=find_gpu("4090"), tp=1, max_model_len=100_000)
    assert "the model does not fit with 1 x 100,000 tokens" in message
    longest = int(message.split("--tp 1 --max-model-len ")[1].split(";")[0])
    assert planned(model, gpu=find_gpu("4090"), tp=1, max_model_len=longest).max_seq_len == longest


def test_the_least_number_of_gpus_is_chosen() -> None:
    assert planned(published("Llama-3.1-70B-Instruct")).tp == 2
    assert planned(published("Llama-3.1-70B-Instruct"), quant="int4_awq").tp == 1


@pytest.mark.parametrize(("options", "is_refused"), [({}, False), ({"chunked_context": False}, True)])
def test_b78_long_prompts_need_chunks(options: dict[str, Any], is_refused: bool) -> None:
    plan = planned(checkpoint(toy()), max_num_tokens=8192, max_num_seqs=8, **options)
    assert plan.max_seq_len == 32768
    assert (
        any(one.startswith("prompts of more than 8,192 tokens will be refused") for one in plan.warnings) == is_refused
    )


def test_warns_of_what_a_reader_would_not_expect() -> None:
    def warnings(name: str, **options: Any) -> str:
        return " ".join(planned(published(name), **options).warnings)

    assert "12 of 24 layers see 128 tokens only" in warnings("gpt-oss-20b")
    assert "each of the 4 KV heads is copied to 2 GPUs" in warnings("Qwen3-30B-A3B", tp=8)
    assert "padded from 32,001 to 32,002" in " ".join(planned(checkpoint(toy(vocab_size=32001)), tp=2).warnings)
    assert "counted as a Llama's" in " ".join(planned(checkpoint(toy(model_type="new"))).warnings)
    assert "the model's 131,072 tokens do not fit" in warnings("Llama-3.1-8B-Instruct", gpu=find_gpu("4090"), tp=1)
    assert "not tested by NVIDIA on SM 75" in warnings("SmolLM2-135M-Instruct", gpu=find_gpu("2080ti"))
    assert "branch of its own" in warnings("SmolLM2-135M-Instruct", gpu=find_gpu("orin"))


def test_files_count_where_they_say_otherwise() -> None:
    config = toy()
    plan = planned(checkpoint(config), tp=1)
    files = Checkpoint(config, False, {"all": plan.parameters * 2}, {"all": plan.parameters * 4})
    twice = planned(files, tp=1)
    assert (twice.parameters, twice.memory.weights) == (plan.parameters * 2, plan.memory.weights * 2)
    assert "the weight files hold 2.00 of what config.json accounts for; the files count" in twice.warnings


def test_a_quantized_checkpoint_is_as_large_as_its_files() -> None:
    config = toy(quantization_config={"quant_method": "awq", "bits": 4})
    files = Checkpoint(config, False, {"all": 1}, {"all": 5 * GIB})
    assert abs(planned(files, tp=1).memory.weights - 5 * GIB) <= 1


def test_gpt_oss_is_as_large_as_its_files() -> None:
    """13,761,264,768 bytes in the index of openai/gpt-oss-20b; norms and biases are 16 bits there, too."""
    assert planned(published("gpt-oss-20b"), tp=1).memory.weights == pytest.approx(13_761_264_768, rel=0.001)


MODELS = st.sampled_from([name for name, *_ in PUBLISHED])
CARDS = st.sampled_from([gpu for gpu in GPUS.values() if gpu.sm >= 80])  # an older one refuses gpt-oss's mxfp4


@st.composite
def fitting(draw: st.DrawFn) -> tuple[Checkpoint, Plan]:
    model, gpu = published(draw(MODELS)), draw(CARDS)
    options = Options(
        gpu,
        kv_fraction=draw(st.floats(0.1, 0.95)),
        max_num_seqs=draw(st.none() | st.integers(1, 512)),
        max_num_tokens=draw(st.none() | st.integers(512, 16384)),
        kv_dtype=draw(st.sampled_from(["auto", "int8"])),
    )
    plans = other_plans(model, options)
    return (model, draw(st.sampled_from(plans))) if plans else draw(fitting())


@given(found=fitting())
def test_never_above_the_card(found: tuple[Checkpoint, Plan]) -> None:
    _, plan = found
    memory = plan.memory
    parts = (memory.weights, memory.activations, memory.runtime, memory.kv_cache, memory.free)
    assert min(parts) >= 0
    assert sum(parts) == memory.total
    assert plan.kv_tokens * plan.kv_bytes_per_token == memory.kv_cache
    assert plan.max_seq_len * (plan.options.max_num_seqs or 1) <= plan.kv_tokens
    assert 1 <= plan.max_batch_size <= plan.max_num_tokens
    assert plan.max_input_len < plan.max_seq_len


@given(found=fitting(), fewer=st.integers(1, 300), more=st.integers(0, 300))
def test_more_at_once_are_shorter_and_longer_ones_fewer(found: tuple[Checkpoint, Plan], fewer: int, more: int) -> None:
    _, plan = found
    assert plan.context_at(fewer) >= plan.context_at(fewer + more)
    assert plan.concurrency_at(fewer) >= plan.concurrency_at(fewer + more)
    if context := plan.context_at(fewer):
        assert plan.concurrency_at(context) >= fewer
        assert plan.concurrency_at(context + TOKENS_PER_BLOCK) < plan.kv_tokens // context + 1


@given(found=fitting(), more=st.integers(1, 64))
def test_a_larger_card_holds_no_less(found: tuple[Checkpoint, Plan], more: int) -> None:
    model, plan = found
    larger = Gpu("larger", plan.options.gpu.memory + more * MIB, plan.options.gpu.sm)
    assert make_plan(model, replace(plan.options, gpu=larger, tp=plan.tp)).kv_tokens >= plan.kv_tokens


@given(found=fitting())
def test_more_gpus_hold_no_less(found: tuple[Checkpoint, Plan]) -> None:
    model, plan = found
    for other in other_plans(model, plan.options):
        if other.options.quant == plan.options.quant and other.tp > plan.tp:
            assert other.kv_tokens >= plan.kv_tokens
            assert other.memory.weights <= plan.memory.weights


@given(found=fitting(), share=st.floats(0.01, 1))
def test_what_fits_a_long_context_fits_a_shorter_one(found: tuple[Checkpoint, Plan], share: float) -> None:
    model, plan = found
    shorter = max(2, int(plan.max_seq_len * share))
    fits = make_plan(model, replace(plan.options, tp=plan.tp, max_model_len=shorter))
    assert fits.max_seq_len == shorter
    assert fits.kv_tokens >= plan.kv_tokens
