"""Requests as Triton's tensors, and its responses as events. Runs on the load host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import InferInput
from tritonclient.utils import triton_to_np_dtype

from perf.load.events import Event, outputs_event
from perf.load.fronts import Target, generate_body
from perf.load.request import LoadRequest
from tritone.errors import TritoneError

READ = ("text_output", "num_output_tokens", "num_input_tokens", "finish_reason")


def input_tensors(target: Target, declared: Mapping[str, Any], request: LoadRequest) -> list[InferInput]:
    """Of the types that the model's metadata declare. Raises TritoneError for an input that it does not have."""
    return [_tensor(target.model, declared, name, value) for name, value in generate_body(target, request).items()]


def _tensor(model: str, inputs: Mapping[str, Any], name: str, value: Any) -> InferInput:
    declared = inputs.get(name)
    if declared is None:
        raise TritoneError(f"the model {model} has no input {name}; it has {', '.join(inputs)}")
    values = [value] if isinstance(value, str | bytes) or not isinstance(value, list | tuple) else list(value)
    if declared.datatype == "BYTES":
        values = [one.encode() if isinstance(one, str) else one for one in values]
    array = np.array(values, triton_to_np_dtype(declared.datatype))
    tensor = InferInput(name, [1] * (len(declared.shape) - 1) + [len(values)], declared.datatype)
    tensor.set_data_from_numpy(array.reshape(tensor.shape()))
    return tensor


def events_of(results: list[Any]) -> list[Event]:
    """What the responses of an answer say."""
    return [outputs_event({name: _value(result, name) for name in READ if _has(result, name)}) for result in results]


def _has(result: Any, name: str) -> bool:
    return any(output.name == name for output in result.get_response().outputs)


def _value(result: Any, name: str) -> Any:
    array = result.as_numpy(name)
    if array is None or not array.size:
        return None
    value = array.ravel()[0]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value.item()


def is_last(result: Any) -> bool:
    """Whether a response is the last of its request."""
    final = result.get_response().parameters.get("triton_final_response")
    return bool(final and final.bool_param)


def error_code(error: Any) -> str:
    """The gRPC code of an error, by name."""
    code = error.code() if isinstance(error, grpc.RpcError) else error.status()
    return str(getattr(code, "name", code)).removeprefix("StatusCode.")
