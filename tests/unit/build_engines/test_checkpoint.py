from __future__ import annotations

import json
from pathlib import Path

import pytest

from build_engines.checkpoint import INDEX, read_checkpoint
from build_engines.errors import BuildError
from tests.unit.build_engines.folders import toy, write_header

TENSORS = {"a": ("BF16", [3, 4], 24), "b": ("F32", [], 4)}


def write_config(folder: Path, **changes: object) -> None:
    (folder / "config.json").write_text(json.dumps({**toy(), **changes}))


def test_headers_tell_values_and_bytes(tmp_path: Path) -> None:
    write_config(tmp_path)
    write_header(tmp_path / "model.safetensors", TENSORS)
    found = read_checkpoint(tmp_path)
    assert (found.elements, found.stored, found.stored_bytes) == ({"a": 12, "b": 1}, {"a": 24, "b": 4}, 28)


def test_an_index_names_the_files(tmp_path: Path) -> None:
    write_config(tmp_path)
    write_header(tmp_path / "one.safetensors", {"a": TENSORS["a"]})
    write_header(tmp_path / "other.safetensors", TENSORS)  # not the index's
    write_header(tmp_path / "two.safetensors", {"b": TENSORS["b"]})
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}))
    assert read_checkpoint(tmp_path).stored_bytes == 28
    (tmp_path / "two.safetensors").unlink()
    with pytest.raises(BuildError, match=r"is incomplete: .* names two\.safetensors, which it does not have"):
        read_checkpoint(tmp_path)
    (tmp_path / "one.safetensors").unlink()
    assert read_checkpoint(tmp_path).elements == {}  # config and index alone: nothing was downloaded


def test_a_config_alone_is_enough(tmp_path: Path) -> None:
    write_config(tmp_path)
    write_header(tmp_path / "model.safetensors", TENSORS)
    assert read_checkpoint(tmp_path / "config.json").elements == {}


def test_the_language_part_of_a_config_counts(tmp_path: Path) -> None:
    write_config(tmp_path, text_config={"hidden_size": 8})
    found = read_checkpoint(tmp_path)
    assert (found.config["hidden_size"], found.config["vocab_size"], found.is_part) == (8, 32000, True)


def test_modelopt_says_how_it_quantized(tmp_path: Path) -> None:
    write_config(tmp_path)
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}))
    assert read_checkpoint(tmp_path).config["quantization_config"] == {"quant_algo": "FP8"}


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file"), ("{", "is not valid JSON"), ("[]", "holds list, not a JSON object")],
)
def test_a_bad_config_is_named(content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(BuildError, match=rf"^model: .*config\.json {message}"):
        read_checkpoint(tmp_path)


def test_a_file_that_was_cut_short_is_named(tmp_path: Path) -> None:
    write_config(tmp_path)
    write_header(tmp_path / "model.safetensors", TENSORS, missing=1)
    with pytest.raises(BuildError, match=r"model\.safetensors is not a readable safetensors file, or not all of it"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0", b"\x02\0\0\0\0\0\0\0[]", b"\xff" * 8 + b"{}"])
def test_a_file_that_is_none_is_named(content: bytes, tmp_path: Path) -> None:
    write_config(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(BuildError, match=r"model\.safetensors is not a readable safetensors file"):
        read_checkpoint(tmp_path)
