from __future__ import annotations

import pytest

from build_engines.architecture import read_architecture
from build_engines.errors import BuildError
from build_engines.parallel import cached_values_of_rank
from tests.unit.build_engines.folders import published, toy

PUBLISHED = [  # parameters as the model's page on Hugging Face has them; KV values of a token, by hand
    ("Qwen1.5-1.8B-Chat", 1_836_828_672, 24 * 2 * 16 * 128),
    ("Qwen2.5-7B-Instruct", 7_615_616_512, 28 * 2 * 4 * 128),
    ("Qwen3-30B-A3B", 30_532_122_624, 48 * 2 * 4 * 128),
    ("Llama-3.1-8B-Instruct", 8_030_261_248, 32 * 2 * 8 * 128),
    ("Llama-3.1-70B-Instruct", 70_553_706_496, 80 * 2 * 8 * 128),
    ("Mistral-7B-v0.1", 7_241_732_096, 32 * 2 * 8 * 128),
    ("Mixtral-8x7B-v0.1", 46_702_792_704, 32 * 2 * 8 * 128),
    ("gemma-2-9b", 9_241_705_984, 42 * 2 * 8 * 256),
    ("Phi-3-mini-4k-instruct", 3_821_079_552, 32 * 2 * 32 * 96),
    ("DeepSeek-V2-Lite-Chat", 15_706_484_224, 27 * (512 + 64)),
    ("gpt-oss-20b", 20_914_757_184, 24 * 2 * 8 * 64),
    ("SmolLM2-135M-Instruct", 134_515_008, 30 * 2 * 3 * 64),
]


@pytest.mark.parametrize(("name", "parameters", "cached"), PUBLISHED)
def test_counts_are_the_published_ones(name: str, parameters: int, cached: int) -> None:
    model = read_architecture(published(name).config)
    assert (model.parameters, cached_values_of_rank(model, 1), model.is_known) == (parameters, cached, True)


@pytest.mark.parametrize(("kv_heads", "bytes_per_token"), [(8, 131_072), (1, 16_384), (None, 524_288)])
def test_b71_the_cache_is_that_of_kv_heads(kv_heads: int | None, bytes_per_token: int) -> None:
    model = read_architecture(toy(num_key_value_heads=kv_heads))
    assert cached_values_of_rank(model, 1) * 2 == bytes_per_token


def test_b71_null_is_as_missing() -> None:
    assert cached_values_of_rank(read_architecture({**toy(), "num_key_value_heads": None}), 1) * 2 == 524_288


def test_b72_head_dim_is_what_config_says() -> None:
    model = read_architecture(toy(num_hidden_layers=36, hidden_size=2560, head_dim=128))
    assert cached_values_of_rank(model, 1) * 2 == 147_456


@pytest.mark.parametrize(("is_tied", "parameters"), [(True, 483_136), (False, 547_136)])
def test_b74_every_expert_counts_and_tied_embeddings_once(is_tied: bool, parameters: int) -> None:
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    experts = {"num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 2}
    config = toy(model_type="mixtral", vocab_size=1000, tie_word_embeddings=is_tied, **shape, **experts)
    assert read_architecture(config).parameters == parameters


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        (None, 32768),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        ({"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 1024}, 32768),
        ({"type": "linear", "factor": 2.0}, 65536),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 32768),
        ({"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}, 32768),
    ],
)
def test_context_has_the_rope_scaling_in_it(scaling: dict[str, object] | None, context: int) -> None:
    assert read_architecture(toy(rope_scaling=scaling)).context == context


@pytest.mark.parametrize(
    ("name", "windowed"), [("gemma-2-9b", 21), ("gpt-oss-20b", 12), ("Mistral-7B-v0.1", 32), ("Qwen1.5-1.8B-Chat", 0)]
)
def test_windows_are_those_of_the_layers(name: str, windowed: int) -> None:
    assert sum(size is not None for size in read_architecture(published(name).config).windows) == windowed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": None}, "model: hidden_size in config.json is None, not an integer of at least 1"),
        ({"num_hidden_layers": 0}, "model: num_hidden_layers in config.json is 0, not an integer of at least 1"),
        ({"vocab_size": "32000"}, "model: vocab_size in config.json is '32000', not an integer of at least 1"),
        ({"num_hidden_layers": True}, "model: num_hidden_layers in config.json is True, not an integer of at least 1"),
        ({"num_key_value_heads": 5}, "model: num_attention_heads 32 is no multiple of num_key_value_heads 5"),
        (
            {"hidden_size": 100},
            "model: hidden_size 100 is no multiple of num_attention_heads 32, and no head_dim",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BuildError) as caught:
        read_architecture(toy(**changes))
    assert str(caught.value) == message


def test_an_unknown_type_is_counted_as_a_llama() -> None:
    model = read_architecture(toy(model_type="new"))
    assert not model.is_known
    assert model.parameters == read_architecture(toy()).parameters
