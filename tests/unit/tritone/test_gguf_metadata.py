from __future__ import annotations

import contextlib
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.tritone.toy_gguf import BYTE_LEVEL, write_toy_gguf
from tritone.errors import ModelError
from tritone.gguf_metadata import is_gguf, read_gguf

_EVERY_TYPE = {
    "uint8": 255,
    "int8": -128,
    "uint16": 65535,
    "int16": -32768,
    "uint32": 4294967295,
    "int32": -2147483648,
    "float32": 0.5,
    "uint64": 18446744073709551615,
    "int64": -9223372036854775808,
    "float64": 0.1,
    "bool": True,
    "string": "größe \U0001f600",
}


def test_every_type_of_value_is_read(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "all.gguf", "toy")
    for name, value in _EVERY_TYPE.items():
        getattr(writer, f"add_{name}")(f"a.{name}", value)
    writer.add_array("a.numbers", [1, 2, 3])
    writer.add_array("a.texts", ["x", "", "yz"])
    writer.add_array("a.lists", [[1, 2], [3]])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    values = read_gguf(tmp_path / "all.gguf").values
    expected = {f"a.{name}": value for name, value in _EVERY_TYPE.items()}
    lists = {"a.numbers": [1, 2, 3], "a.texts": ["x", "", "yz"], "a.lists": [[1, 2], [3]]}
    assert values == {"general.architecture": "toy", **expected, **lists}


def test_tensors_are_listed_with_their_dimensions(tmp_path: Path) -> None:
    metadata = read_gguf(write_toy_gguf(tmp_path / "toy.gguf", BYTE_LEVEL))
    assert metadata.tensors == {"token_embd.weight": (16, 267)}


def test_other_files_are_not_gguf(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"GGU")
    assert not is_gguf(path)
    with pytest.raises(ModelError, match=r"weights\.bin is not a readable GGUF file: it does not start with GGUF"):
        read_gguf(path)


@pytest.mark.parametrize(("version", "shown"), [(b"\1\0\0\0", "1"), (b"\0\0\0\3", "50331648"), (b"\4\0\0\0", "4")])
def test_other_versions_and_byte_orders_are_refused(version: bytes, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "old.gguf"
    path.write_bytes(b"GGUF" + version + bytes(100))
    with pytest.raises(ModelError, match=rf"version {shown} \(little-endian\), accepted are 2 and 3"):
        read_gguf(path)


@pytest.fixture(scope="module")
def toy_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_toy_gguf(tmp_path_factory.mktemp("toy") / "toy.gguf", BYTE_LEVEL).read_bytes()


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_cut_short_is_an_error_or_whole(data: st.DataObject, toy_bytes: bytes, tmp_path: Path) -> None:
    end_of_metadata = toy_bytes.index(b"token_embd.weight") + len(b"token_embd.weight") + 4 + 16 + 12
    length = data.draw(st.integers(0, end_of_metadata - 1))
    path = tmp_path / "cut.gguf"
    path.write_bytes(toy_bytes[:length])
    with pytest.raises(ModelError, match="not a readable GGUF file"):
        read_gguf(path)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_never_do_worse_than_an_error(data: st.DataObject, toy_bytes: bytes, tmp_path: Path) -> None:
    place = data.draw(st.integers(0, min(len(toy_bytes) - 1, 1500)))
    damage = data.draw(st.binary(min_size=1, max_size=8))
    path = tmp_path / "damaged.gguf"
    path.write_bytes(toy_bytes[:place] + damage + toy_bytes[place + len(damage) :])
    with contextlib.suppress(ModelError):
        read_gguf(path)
