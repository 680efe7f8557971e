"""Triton's calls into the postprocess stage, and this stage's calls into Triton. Nothing else lives here."""

from __future__ import annotations

import locale

locale.setlocale(locale.LC_ALL, "C.UTF-8")  # the embedded interpreter has none, and open() would decode as ASCII

import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from .logprobs import ChunkLogprobs
from .settings import parse_settings
from .stream_table import StreamKey
from .streams import Reply, Streams
from .vocabulary import Vocabulary

logger = logging.getLogger(__name__)
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
SENDERS = 4  # to send is to wait for Triton's answer, a millisecond or so
FEW_STREAMS = 2  # so many do not get into each other's way, and need not wait for another thread to wake up


class TritonPythonModel:
    """One detokenizer for all streams; decoupled, because most chunks need no response of their own."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the tokenizer; an exception here is the reason Triton gives for the model not being ready."""
        logging.basicConfig(level=logging.INFO, format="%(levelname).1s postprocess: %(message)s")
        settings = parse_settings(json.loads(args["model_config"])["parameters"])
        vocabulary = Vocabulary.load(Path(__file__).parent / "tokenizer" / "tokenizer.json")
        engine_model = args["model_name"].removesuffix("postprocess") + "engine"
        self._senders = ThreadPoolExecutor(SENDERS, "sender")
        self._streams = Streams(vocabulary, Path(settings.run_dir), os.getppid(), engine_model)

    def execute(self, requests: list[Any]) -> None:
        """Take each chunk's ids, answer with the text or with nothing, and acknowledge; many streams in parallel."""
        for request in requests:
            row, generation, number = read_tensor(request, "stream_key").tolist()
            key = StreamKey(row, generation)
            reply = self._take(request, key)
            if len(self._streams) > FEW_STREAMS:
                self._senders.submit(self._answer, request, key, number, reply)
            else:
                self._answer(request, key, number, reply)
        self._streams.sweep()

    def finalize(self) -> None:
        """Send what is still to be sent."""
        self._senders.shutdown()

    def _take(self, request: Any, key: StreamKey) -> Reply | pb_utils.TritonError | None:
        try:
            return self._streams.feed(
                key,
                context=read_text(request, "stream_context"),
                ids=read_tensor(request, "output_ids").tolist(),
                finish_reason=read_text(request, "finish_reason"),
                read_logprobs=partial(read_logprobs, request),
            )
        except Exception:
            logger.exception("a chunk could not be answered")
            self._streams.drop(key)
            return pb_utils.TritonError("internal error in the postprocess stage", pb_utils.TritonError.INTERNAL)

    def _answer(self, request: Any, key: StreamKey, number: int, reply: Reply | pb_utils.TritonError | None) -> None:
        sender = request.get_response_sender()
        try:
            self._streams.check_left(key, request.is_cancelled)
            if reply is None:
                sender.send(flags=FINAL)
            else:
                sender.send(to_response(reply), flags=FINAL)
        except Exception:
            logger.exception("a reply could not be sent")
        self._streams.acknowledge(key, number)


def read_tensor(request: Any, name: str) -> Any:
    """An input as flat numpy array."""
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()


def read_text(request: Any, name: str) -> str:
    """A STRING input of one element; "" when it is absent."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    text: bytes = b"" if tensor is None else tensor.as_numpy().ravel()[0]
    return text.decode("utf-8")


def read_logprobs(request: Any) -> ChunkLogprobs:
    """The log probabilities of a chunk; nothing for what is absent."""
    tensors = [
        pb_utils.get_input_tensor_by_name(request, name) for name in ("output_log_probs", "top_ids", "top_log_probs")
    ]
    return ChunkLogprobs(*(tensor.as_numpy().ravel().tolist() if tensor else [] for tensor in tensors))


def to_response(reply: Reply | pb_utils.TritonError) -> Any:
    """An error, or a reply as tensors, each with the batch dimension [1, 1]. A tensor costs: absent values stay out."""
    if isinstance(reply, pb_utils.TritonError):
        return pb_utils.InferenceResponse(error=reply)
    tensors = [
        pb_utils.Tensor("text_output", np.array([[reply.text.encode("utf-8")]], np.object_)),
        pb_utils.Tensor("num_output_tokens", np.array([[reply.num_output_tokens]], np.int32)),
    ]
    if reply.finish_reason:
        tensors.append(pb_utils.Tensor("finish_reason", np.array([[reply.finish_reason]], np.object_)))
    if reply.num_input_tokens is not None:
        tensors.append(pb_utils.Tensor("num_input_tokens", np.array([[reply.num_input_tokens]], np.int32)))
    if reply.logprobs is not None:
        tensors.append(pb_utils.Tensor("logprobs", np.array([[reply.logprobs.encode("ascii")]], np.object_)))
    return pb_utils.InferenceResponse(tensors)
