"""Greedy answers of the bundled model, its weights the same and in float32: every engine's against PyTorch's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tritone.bundled_model import BUNDLED_NAME, bundled_model
from tritone.model_folder import describe_model
from tritone.safetensors_folder import safetensors_folder

from .engines import ENGINES, needs_environment, serve_with
from .serving import Server, generate

pytestmark = [pytest.mark.service, needs_environment]

TOKENS = 32
PROMPTS: list[dict[str, Any]] = [
    {"messages": json.dumps([{"role": "user", "content": "What is the capital of France?"}])},
    {"messages": json.dumps([{"role": "user", "content": "Name three colours."}])},
    {"text_input": "The capital of France is"},
    {"text_input": "Once upon a time there was a"},
    {"text_input": "def fibonacci(n):\n"},
    {"text_input": "1, 2, 3, 4,"},
    {"text_input": "The sea is", "stop_words": ["."]},
]
SAME = ("finish_reason", "num_input_tokens", "num_output_tokens")

CLOSE = {"openvino": 0.25, "vllm": 0.02}
"""Where the two likeliest tokens are closer than this (in log probability), another order of additions, or OpenVINO's
bfloat16, may choose the other one; what follows is not compared then."""


def answers(server: Server, **asked: Any) -> list[dict[str, Any]]:
    return [generate(server, BUNDLED_NAME, **prompt, **asked, max_tokens=TOKENS) for prompt in PROMPTS]


def certain_text(answer: dict[str, Any], close: float) -> str:
    """The answer up to the first token that might as well have been another."""
    text = b""
    for entry in json.loads(answer["logprobs"]):
        likeliest, second = entry["top_logprobs"]
        if likeliest["logprob"] - second["logprob"] < close:
            break
        text += bytes(entry["bytes"])
    return text.decode(errors="ignore")[: len(answer["text_output"])]  # a stop word has entries, and is no text


@pytest.fixture(scope="module")
def folder() -> Path:
    model = describe_model(bundled_model(), ("gguf",))
    return safetensors_folder(model.path, model.tokenizer_dir, lambda what, done, total: None)


@pytest.fixture(scope="module")
def reference(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    with serve_with("transformers", tmp_path_factory.mktemp("reference"), folder, "--name", BUNDLED_NAME) as server:
        return answers(server, return_log_probs=True, top_logprobs=2)


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if "transformers" not in engine.values])
def test_answers_are_those_of_pytorch(
    engine: str, folder: Path, reference: list[dict[str, Any]], tmp_path: Path
) -> None:
    with serve_with(engine, tmp_path, folder, "--name", BUNDLED_NAME, "--max-model-len", "2048") as server:
        made = answers(server)
    whole = 0
    for expected, answer in zip(reference, made, strict=True):
        certain = certain_text(expected, CLOSE[engine])
        assert answer["text_output"].startswith(certain)
        if certain == expected["text_output"]:
            assert {name: answer[name] for name in SAME} == {name: expected[name] for name in SAME}
            whole += 1
    assert whole >= 1  # else nothing would be said of ends and counts
    assert made[0]["text_output"] == "The capital of France is Paris."
