"""Makes each stage's and the ensemble's config.pbtxt from the contract, through Triton's own protobuf.

An unknown field or a wrong type fails here and not in the server.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from .contract import STAGES, Party, Tensor, inputs_of, outputs_of

# A dynamic batch is how Triton hands several waiting requests to a Python stage in one call. Not for postprocess: the
# batcher drops the chunks of a client that has left, and Triton never releases an ensemble request that lost one.
MAX_BATCH_SIZE = {"preprocess": 64, "engine": 1, "postprocess": 1}
IS_DECOUPLED = {"preprocess": False, "engine": True, "postprocess": True}


def stage_config(
    stage: Party, model: str, parameters: Mapping[str, Any], instances: int = 1, environment: str = ""
) -> Any:
    """The ModelConfig of `<model>_<stage>`. Each parameter's value is written as JSON.

    `environment` is the virtual environment to run the stage in, if not the server's own: Triton reads that itself.
    """
    config = model_config_pb2.ModelConfig(
        name=stage_model(model, stage), backend="python", max_batch_size=MAX_BATCH_SIZE[stage]
    )
    for tensor in inputs_of(stage):
        _add(config.input, tensor, optional=tensor.is_optional)
    for tensor in outputs_of(stage):
        _add(config.output, tensor)
    config.model_transaction_policy.decoupled = IS_DECOUPLED[stage]
    config.instance_group.add(kind=model_config_pb2.ModelInstanceGroup.KIND_CPU, count=instances)
    if MAX_BATCH_SIZE[stage] > 1:
        config.dynamic_batching.SetInParent()
    for name, value in parameters.items():
        config.parameters[name].string_value = json.dumps(value)
    if environment:
        config.parameters["EXECUTION_ENV_PATH"].string_value = environment
    return config


def ensemble_config(model: str, served_name: str, lora_names: Sequence[str] = ()) -> Any:
    """The ModelConfig of the ensemble, with a step for each stage.

    Gateways know the model as `served_name`, and with each of its LoRA adapters by that one's name.
    """
    config = model_config_pb2.ModelConfig(name=model, platform="ensemble", max_batch_size=1)
    for tensor in _wired(inputs_of("preprocess")):
        _add(config.input, tensor, optional=tensor.is_optional)
    for tensor in outputs_of("postprocess"):
        _add(config.output, tensor)
    for stage in STAGES:
        step = config.ensemble_scheduling.step.add(model_name=stage_model(model, stage), model_version=-1)
        for tensor in _wired(inputs_of(stage)):
            step.input_map[tensor.name] = tensor.ensemble_name
        for tensor in _wired(outputs_of(stage)):
            step.output_map[tensor.name] = tensor.ensemble_name
    config.parameters["served_name"].string_value = served_name
    if lora_names:
        config.parameters["lora_names"].string_value = json.dumps(lora_names)
    return config


def stage_model(model: str, stage: Party) -> str:
    """The Triton model name of a stage."""
    return f"{model}_{stage}"


def to_text(config: Any) -> str:
    """The text form of a ModelConfig; the same config always gives the same text."""
    text: str = text_format.MessageToString(config, as_utf8=True)
    return text


def _wired(tensors: Iterable[Tensor]) -> list[Tensor]:
    return [tensor for tensor in tensors if not tensor.is_direct]


def _add(field: Any, tensor: Tensor, **options: bool) -> None:
    data_type = model_config_pb2.DataType.Value(f"TYPE_{tensor.dtype}")
    field.add(name=tensor.name, data_type=data_type, dims=tensor.dims, **options)
