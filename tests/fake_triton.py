"""A strict stand-in for Triton's `triton_python_backend_utils`: only the real names, with the real rules.

`load_stage` imports a stage's `model.py` against it, from an assembled repository as Triton does.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1


class Tensor:
    def __init__(self, name: str, array: np.ndarray[Any, Any]) -> None:
        assert isinstance(array, np.ndarray)
        self._name = name
        self._array = array

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> np.ndarray[Any, Any]:
        if self._array.dtype != np.object_:
            return self._array
        texts = [item.encode() if isinstance(item, str) else item for item in self._array.ravel()]
        return np.array(texts, np.object_).reshape(self._array.shape)


class TritonError:
    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        self._message = message
        self._code = code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code


class InferenceResponse:
    def __init__(self, output_tensors: list[Tensor] | None = None, error: TritonError | None = None) -> None:
        self._tensors = output_tensors or []
        self._error = error

    def output_tensors(self) -> list[Tensor]:
        return self._tensors

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error

    def values(self) -> dict[str, Any]:
        """For tests: the tensors' elements by name, without the batch dimension's list."""
        return {tensor.name(): tensor.as_numpy().tolist()[0] for tensor in self._tensors}


class ResponseSender:
    """Refuses a response after the final one, as Triton does."""

    def __init__(self) -> None:
        self.responses: list[InferenceResponse] = []
        self.is_closed = False

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        assert not self.is_closed, "a response after the final one"
        assert response is not None or flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL
        self.is_closed = flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL
        if response is not None:
            self.responses.append(response)


class InferenceRequest:
    def __init__(self, request_id: str = "", parameters: str = "{}", **inputs: np.ndarray[Any, Any]) -> None:
        self._id = request_id
        self._parameters = parameters
        self._inputs = [Tensor(name, array) for name, array in inputs.items()]
        self.sender = ResponseSender()
        self.has_left = False

    def is_cancelled(self) -> bool:
        assert not self.sender.is_closed, "Triton crashes when it is asked after the final response"
        return self.has_left

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def request_id(self) -> str:
        return self._id

    def parameters(self) -> str:
        return self._parameters

    def get_response_sender(self) -> ResponseSender:
        return self.sender


def get_input_tensor_by_name(request: InferenceRequest, name: str) -> Tensor | None:
    return next((tensor for tensor in request.inputs() if tensor.name() == name), None)


def text(*values: str | bytes) -> np.ndarray[Any, Any]:
    """A STRING input [1, n]."""
    return np.array([[value.encode() if isinstance(value, str) else value for value in values]], np.object_)


def int32(*values: int) -> np.ndarray[Any, Any]:
    """An INT32 input [1, n]."""
    return np.array([values], np.int32)


def load_stage(repository: Path, stage: str) -> types.ModuleType:
    """The `model` module of a stage in an assembled repository."""
    folder = next(repository.glob(f"*_{stage}")) / "1"
    package = f"assembled_{stage}"
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        package, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    sys.modules[package] = importlib.util.module_from_spec(spec)
    sys.modules["triton_python_backend_utils"] = sys.modules[__name__]
    try:
        return importlib.import_module(f"{package}.model")
    finally:
        del sys.modules["triton_python_backend_utils"]
