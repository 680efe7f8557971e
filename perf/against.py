"""NVIDIA's `inflight_batcher_llm` model repository with the scripted engine in the place of TensorRT-LLM.

Runs on the load host. Their folders are copied from where the user has them, the `${...}` in their configurations are
filled, and their code is left as it is.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from perf.export import Outputs, one_each
from perf.runs import Point
from tritone.bundled_model import bundled_model
from tritone.errors import TritoneError

ENGINE = Path(__file__).resolve().parent / "tensorrt_llm_step"
FOLDERS = ("preprocessing", "tensorrt_llm", "postprocessing", "ensemble")
NO_END_ID = -1
FLOATS = {model_config_pb2.TYPE_FP16, model_config_pb2.TYPE_FP32}

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_COMMENT_OR_TEXT = re.compile(r'#.*|"[^"]*"')


class AgainstError(TritoneError):
    """The folder to compare with is not a model repository in NVIDIA's layout, or one that we cannot fill."""


class NvidiaEnsemble:
    """Theirs, from the folder `source`, with the tokenizer of the bundled model."""

    name = "against"
    model = "ensemble"

    def __init__(self, source: Path) -> None:
        missing = [folder for folder in FOLDERS if not (source / folder / "config.pbtxt").is_file()]
        if missing:
            raise AgainstError(f"{source} has no config.pbtxt in {', '.join(missing)}: it is not NVIDIA's layout")
        self._source = source

    def write(self, target: Path, point: Point, trace_file: str) -> None:
        """See Ensemble."""
        values = placeholder_values(bundled_model(), point.streams)
        for folder in FOLDERS:
            ignored = shutil.ignore_patterns("__pycache__", *(["1"] if folder == "tensorrt_llm" else []))
            shutil.copytree(self._source / folder, target / folder, ignore=ignored)
            (target / folder / "1").mkdir(exist_ok=True)  # Git keeps no empty folder
            config = target / folder / "config.pbtxt"
            config.write_text(fill(config.read_text("utf-8"), values, f"{folder}/config.pbtxt"), "utf-8")
        declare_absent_floats_as_ints(target / "ensemble" / "config.pbtxt", target / "tensorrt_llm" / "config.pbtxt")
        settings = {
            "tokens_per_second": point.rate,
            "max_num_seqs": point.streams,
            "trace_file": trace_file,
        }
        write_engine(target / "tensorrt_llm" / "1", settings)

    def inputs(self, prompt: str, max_tokens: int) -> Mapping[str, Any]:
        """See Ensemble."""
        return {"text_input": [prompt], "max_tokens": [max_tokens], "end_id": [NO_END_ID], "stream": [True]}

    def count_tokens(self, outputs: Outputs) -> list[int]:
        """See Ensemble."""
        return one_each(outputs)


def placeholder_values(tokenizer_dir: Path, streams: int) -> dict[str, str]:
    """What NVIDIA's templates are filled with: batches as large as the load, no waiting, one process a stage."""
    return {
        "triton_backend": "python",
        "triton_max_batch_size": str(streams),
        "decoupled_mode": "true",
        "max_queue_delay_microseconds": "0",
        "max_queue_size": "0",
        "preprocessing_instance_count": "1",
        "postprocessing_instance_count": "1",
        "tokenizer_dir": str(tokenizer_dir),
        "add_special_tokens": "true",
        "skip_special_tokens": "true",
        "logits_datatype": "TYPE_FP32",
        "encoder_input_features_data_type": "TYPE_FP16",
        "prompt_embedding_table_data_type": "TYPE_FP16",
    }


def fill(template: str, values: Mapping[str, str], name: str) -> str:
    """The template with the values put in. An unknown placeholder may stay in a string, where it means "not set".

    Raises AgainstError for one elsewhere, where Triton could not read the file.
    """
    filled = _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)
    left = _PLACEHOLDER.findall(_COMMENT_OR_TEXT.sub("", filled))
    if left:
        raise AgainstError(f"{name}: no value is known for {', '.join(sorted(set(left)))}")
    return filled


def declare_absent_floats_as_ints(ensemble_path: Path, engine_path: Path) -> None:
    """For the ensemble's outputs that only log probabilities, logits and statistics would fill; the scripted step has
    none. perf_analyzer exports whatever lies in memory in an absent output's place, and stops without a word at a NaN.
    """
    ensemble, engine = (
        text_format.Parse(path.read_text("utf-8"), model_config_pb2.ModelConfig())
        for path in (ensemble_path, engine_path)
    )
    steps = ensemble.ensemble_scheduling.step
    used = {tensor for step in steps for tensor in step.input_map.values()}
    from_engine = {
        name: tensor for step in steps if step.model_name == "tensorrt_llm" for name, tensor in step.output_map.items()
    }
    absent = {name: tensor for name, tensor in from_engine.items() if tensor not in used}
    for config, names in ((engine, set(absent)), (ensemble, set(absent.values()))):
        for output in config.output:
            if output.name in names and output.data_type in FLOATS:
                output.data_type = model_config_pb2.TYPE_INT32
    ensemble_path.write_text(text_format.MessageToString(ensemble), "utf-8")
    engine_path.write_text(text_format.MessageToString(engine), "utf-8")


def write_engine(folder: Path, settings: Mapping[str, Any]) -> None:
    """The scripted engine behind TensorRT-LLM's tensors, as version folder of a model."""
    # symbolic links (the engine itself) are followed: the copy must stand alone
    shutil.copytree(ENGINE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "settings.json").write_text(json.dumps(settings), "ascii")
