"""NVIDIA's layout is recognized, filled and given the scripted engine; their code stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from perf import against
from perf.against import FOLDERS, AgainstError, NvidiaEnsemble, declare_absent_floats_as_ints, fill, write_engine
from perf.runs import Point

TEMPLATE = """
max_batch_size: ${triton_max_batch_size}
# ${enable_trt_overlap} is gone
parameters { key: "tokenizer_dir" value: { string_value: "${tokenizer_dir}" } }
parameters { key: "engine" value: { string_value: "${engine_dir}" } }
"""
FILLED = """
max_batch_size: 64
# ${enable_trt_overlap} is gone
parameters { key: "tokenizer_dir" value: { string_value: "/models/toy" } }
parameters { key: "engine" value: { string_value: "${engine_dir}" } }
"""


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """A repository with NVIDIA's folders."""
    source = tmp_path / "all_models"
    for folder in FOLDERS:
        (source / folder / "1").mkdir(parents=True)
        (source / folder / "config.pbtxt").write_text(TEMPLATE)
        (source / folder / "1" / "model.py").write_text(f"# {folder}\n")
    (source / "tensorrt_llm" / "1" / "weights.bin").write_text("")
    (source / "tensorrt_llm_bls" / "1").mkdir(parents=True)
    return source


def test_placeholders_are_filled_and_unknown_ones_stay_in_strings() -> None:
    assert fill(TEMPLATE, {"triton_max_batch_size": "64", "tokenizer_dir": "/models/toy"}, "x") == FILLED


def test_unknown_placeholder_outside_a_string_is_named() -> None:
    with pytest.raises(AgainstError, match=r"ensemble/config\.pbtxt: no value is known for triton_max_batch_size"):
        fill(TEMPLATE, {}, "ensemble/config.pbtxt")


def test_other_folder_is_refused(layout: Path) -> None:
    (layout / "ensemble" / "config.pbtxt").unlink()
    with pytest.raises(AgainstError, match=r"has no config\.pbtxt in ensemble"):
        NvidiaEnsemble(layout)


def test_repository_has_their_stages_and_our_engine(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(against, "bundled_model", lambda: Path("/models/toy"))
    target = tmp_path / "repository"
    NvidiaEnsemble(layout).write(target, Point(64, 500.0), "/tmp/trace")
    assert sorted(path.name for path in target.iterdir()) == sorted(FOLDERS)
    assert {(target / folder / "config.pbtxt").read_text() for folder in ("preprocessing", "postprocessing")} == {
        FILLED
    }
    assert parsed(target / "ensemble" / "config.pbtxt").parameters["tokenizer_dir"].string_value == "/models/toy"
    for folder in ("preprocessing", "postprocessing"):
        assert (target / folder / "1" / "model.py").read_text() == f"# {folder}\n"
    engine = target / "tensorrt_llm" / "1"
    assert not (engine / "weights.bin").exists()
    assert "sequence_length" in (engine / "model.py").read_text()
    assert json.loads((engine / "settings.json").read_text()) == {
        "tokens_per_second": 500.0,
        "max_num_seqs": 64,
        "trace_file": "/tmp/trace",
    }


def test_floats_that_the_scripted_step_does_not_make_are_declared_as_ints(tmp_path: Path) -> None:
    ensemble, engine = tmp_path / "ensemble.pbtxt", tmp_path / "engine.pbtxt"
    ensemble.write_text("""
        output [ { name: "text_output" data_type: TYPE_STRING dims: 1 },
                 { name: "logits" data_type: TYPE_FP32 dims: 1 } ]
        ensemble_scheduling {
            step { model_name: "tensorrt_llm" output_map { key: "output_ids" value: "_IDS" }
                   output_map { key: "generation_logits" value: "logits" } output_map { key: "probs" value: "_PROBS" } }
            step { model_name: "postprocessing" input_map { key: "P" value: "_PROBS" }
                   output_map { key: "OUTPUT" value: "text_output" } }
        }""")
    engine.write_text("""
        input { name: "temperature" data_type: TYPE_FP32 dims: 1 }
        output [ { name: "output_ids" data_type: TYPE_INT32 dims: 1 }, { name: "probs" data_type: TYPE_FP32 dims: 1 },
                 { name: "generation_logits" data_type: TYPE_FP16 dims: 1 } ]""")
    declare_absent_floats_as_ints(ensemble, engine)
    types = {output.name: output.data_type for path in (ensemble, engine) for output in parsed(path).output}
    assert types == {
        "text_output": model_config_pb2.TYPE_STRING,
        "logits": model_config_pb2.TYPE_INT32,
        "output_ids": model_config_pb2.TYPE_INT32,
        "probs": model_config_pb2.TYPE_FP32,  # another step takes it, by this type
        "generation_logits": model_config_pb2.TYPE_INT32,
    }
    assert parsed(engine).input[0].data_type == model_config_pb2.TYPE_FP32


def parsed(path: Path) -> Any:
    return text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())


def test_engine_stands_alone(tmp_path: Path) -> None:
    write_engine(tmp_path / "1", {})
    files = sorted((tmp_path / "1").iterdir())
    assert not [file for file in files if file.is_symlink()]
    assert {file.name for file in files} == {
        "__init__.py",
        "adapter.py",
        "model.py",
        "request_tensors.py",
        "scripted_adapter.py",
        "settings.json",
        "token_trace.py",
    }
