"""Triton's calls into the postprocess stage, and this stage's calls into Triton. Nothing else lives here."""

from __future__ import annotations

import locale

locale.setlocale(locale.LC_ALL, "C.UTF-8")  # the embedded interpreter has none, and open() would decode as ASCII

import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from .settings import parse_settings
from .streams import Reply, Streams
from .vocabulary import Vocabulary

logger = logging.getLogger(__name__)
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """One detokenizer for all streams; decoupled, because most chunks need no response of their own."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the tokenizer; an exception here is the reason Triton gives for the model not being ready."""
        logging.basicConfig(level=logging.INFO, format="%(levelname).1s postprocess: %(message)s")
        settings = parse_settings(json.loads(args["model_config"])["parameters"])
        vocabulary = Vocabulary.load(Path(__file__).parent / "tokenizer" / "tokenizer.json")
        engine_model = args["model_name"].removesuffix("postprocess") + "engine"
        self._streams = Streams(vocabulary, Path(settings.run_dir), os.getppid(), engine_model)

    def execute(self, requests: list[Any]) -> None:
        """Answer each chunk with its text, or with nothing when it holds none, and acknowledge it."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._answer(request, sender)
            except Exception:
                logger.exception("a chunk could not be answered")
                error = pb_utils.TritonError("internal error in the postprocess stage", pb_utils.TritonError.INTERNAL)
                sender.send(pb_utils.InferenceResponse(error=error), flags=FINAL)
        self._streams.sweep()

    def _answer(self, request: Any, sender: Any) -> None:
        row, generation, chunk = read_tensor(request, "stream_key").tolist()
        reply = self._streams.feed(
            row,
            generation,
            context=read_text(request, "stream_context"),
            ids=read_tensor(request, "output_ids").tolist(),
            finish_reason=read_text(request, "finish_reason"),
        )
        self._streams.check_left(row, generation, request.is_cancelled)
        if reply is None:
            sender.send(flags=FINAL)
        else:
            sender.send(pb_utils.InferenceResponse(to_tensors(reply)), flags=FINAL)
        self._streams.acknowledge(row, generation, chunk)


def read_tensor(request: Any, name: str) -> Any:
    """An input as flat numpy array."""
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()


def read_text(request: Any, name: str) -> str:
    """A STRING input of one element; "" when it is absent."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    text: bytes = b"" if tensor is None else tensor.as_numpy().ravel()[0]
    return text.decode("utf-8")


def to_tensors(reply: Reply) -> list[Any]:
    """A reply as tensors, each with the batch dimension [1, 1]. A tensor costs, so absent values stay out."""
    tensors = [
        pb_utils.Tensor("text_output", np.array([[reply.text.encode("utf-8")]], np.object_)),
        pb_utils.Tensor("num_output_tokens", np.array([[reply.num_output_tokens]], np.int32)),
    ]
    if reply.finish_reason:
        tensors.append(pb_utils.Tensor("finish_reason", np.array([[reply.finish_reason]], np.object_)))
    if reply.num_input_tokens is not None:
        tensors.append(pb_utils.Tensor("num_input_tokens", np.array([[reply.num_input_tokens]], np.int32)))
    return tensors
