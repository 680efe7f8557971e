from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.toy_tokenizers import byte_level_tokenizer
from tests.unit.tritone.toy_gguf import BYTE_LEVEL, END, START, write_toy_gguf
from tritone.errors import ModelError
from tritone.model_folder import ModelFolder, describe_model

CONFIG = {"model_type": "llama", "vocab_size": 320, "max_position_embeddings": 64, "eos_token_id": 257}


def _folder(path: Path, *names: str, config: dict[str, Any] | None = None) -> Path:
    """A model folder with a tokenizer, a config and empty files of these names."""
    path.mkdir()
    byte_level_tokenizer().save(str(path / "tokenizer.json"))
    (path / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    for name in names:
        (path / name).touch()
    return path


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["model.safetensors"], "huggingface"),
        (["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], "huggingface"),
        (["openvino_model.xml", "openvino_model.bin"], "openvino"),
    ],
)
def test_folders_are_served_as_they_are(names: list[str], kind: Any, tmp_path: Path) -> None:
    folder = _folder(tmp_path / "My Model", *names)
    assert describe_model(folder) == ModelFolder(
        kind=kind,
        path=folder,
        tokenizer_dir=folder,
        name="my-model",
        max_position_embeddings=64,
        vocab_size=320,
        eos_token_ids=(257,),
        bos_token_id=None,
    )


def test_gguf_file_gets_a_folder_in_the_cache(cache: Path, tmp_path: Path) -> None:
    path = write_toy_gguf(tmp_path / "Toy-Q4.gguf", BYTE_LEVEL)
    model = describe_model(path)
    assert model == ModelFolder(
        kind="gguf",
        path=path,
        tokenizer_dir=model.tokenizer_dir,
        name="toy-q4",
        max_position_embeddings=64,
        vocab_size=267,
        eos_token_ids=(END,),
        bos_token_id=START,
    )
    assert model.tokenizer_dir.parent == cache
    assert (model.tokenizer_dir / "tokenizer.json").is_file()


def test_folder_with_one_gguf_uses_the_tokenizer_beside_it(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "model")
    path = write_toy_gguf(folder / "weights.gguf", BYTE_LEVEL)
    model = describe_model(folder)
    assert (model.kind, model.path, model.tokenizer_dir, model.name) == ("gguf", path, folder, "model")


def test_folder_with_only_a_gguf_is_converted(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    write_toy_gguf(tmp_path / "model/weights.gguf", BYTE_LEVEL)
    model = describe_model(tmp_path / "model")
    assert (model.tokenizer_dir.parent, model.vocab_size) == (cache, 267)


def test_relative_paths_come_out_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _folder(tmp_path / "model", "model.safetensors")
    monkeypatch.chdir(tmp_path / "model")
    model = describe_model(Path("."))
    assert (model.path, model.tokenizer_dir, model.name) == (tmp_path / "model", tmp_path / "model", "model")


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ([], r"model has only config\.json, tokenizer\.json; accepted are a \.gguf file, an OpenVINO folder"),
        (
            ["pytorch_model.bin"],
            r"model has its weights as pytorch_model\.bin; accepted .*optimum-cli export openvino --m",
        ),
        (["a.gguf", "b.gguf"], r"model has 2 GGUF files \(a\.gguf, b\.gguf\): name the one to serve"),
        (["a.gguf"], r"a\.gguf is not a GGUF file; accepted are"),
        ([f"{n}.txt" for n in range(9)], r"has only 0\.txt, .*, 7\.txt and 3 more; accepted are"),
    ],
)
def test_other_folders_are_refused_by_what_is_in_them(names: list[str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=complaint):
        describe_model(_folder(tmp_path / "model", *names))


def test_empty_folders_and_missing_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has nothing in it; accepted are"):
        describe_model(tmp_path)
    with pytest.raises(ModelError, match=r"there is no .*nowhere; accepted are"):
        describe_model(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ModelError, match=r"notes\.txt is not a GGUF file; accepted are"):
        describe_model(tmp_path / "notes.txt")


def test_model_without_an_end_token_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = _folder(tmp_path / "model", "model.safetensors", config={"vocab_size": 320})
    with caplog.at_level(logging.WARNING):
        assert describe_model(folder).eos_token_ids == ()
    assert caplog.messages == [f"{folder} names no end token: answers will run to their length limit"]


def _without_tokenizer_json(path: Path, tokenizer_files: dict[str, str]) -> Path:
    folder = _folder(path, "model.safetensors")
    (folder / "tokenizer.json").unlink()
    (folder / "generation_config.json").write_text('{"eos_token_id": [3]}')
    for name, text in tokenizer_files.items():
        (folder / name).write_text(text)
    return folder


def test_older_tokenizer_files_are_converted_into_the_cache(cache: Path, tmp_path: Path) -> None:
    files = {
        "tokenizer_config.json": '{"tokenizer_class": "GPT2Tokenizer"}',
        "vocab.json": '{"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}',
        "merges.txt": "#version: 0.2\na b\n",
    }
    folder = _without_tokenizer_json(tmp_path / "model", files)
    model = describe_model(folder)
    assert (model.path, model.tokenizer_dir.parent, model.eos_token_ids) == (folder, cache, (3,))
    assert Tokenizer.from_file(str(model.tokenizer_dir / "tokenizer.json")).encode("abba").ids == [2, 1, 0]
    assert not (folder / "tokenizer.json").exists()
    assert describe_model(folder) == model


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({}, r"has no tokenizer\.json, nor files to make one from; it has only config\.json"),
        (
            {"tokenizer_config.json": "{"},
            r"has no tokenizer\.json and transformers could not make one: Expecting property name",
        ),
        (
            {"tokenizer.model": "\n\x0e\n\x05<unk>"},
            r"sentencepiece is missing \(tokenizer\.model is read with `pip install sentencepiece==",
        ),
    ],
)
def test_folder_without_a_usable_tokenizer_is_refused(
    files: dict[str, str], complaint: str, cache: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=complaint):
        describe_model(_without_tokenizer_json(tmp_path / "model", files))
    assert not [entry for entry in cache.glob("*") if entry.name != "locks"]
