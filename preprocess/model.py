"""Triton's calls into the preprocess stage, and this stage's calls into Triton. Nothing else lives here."""

from __future__ import annotations

import locale

locale.setlocale(locale.LC_ALL, "C.UTF-8")  # the embedded interpreter has none, and open() would decode as ASCII

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from .errors import InvalidRequest
from .pipeline import Pipeline, Request
from .prepared import Prepared
from .settings import PreprocessSettings
from .word_lists import word_list_tensor

logger = logging.getLogger(__name__)


class TritonPythonModel:
    """Checks and tokenizes requests, all that wait in one call."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the tokenizer; an exception here is the reason Triton gives for the model not being ready."""
        logging.basicConfig(level=logging.INFO, format="%(levelname).1s preprocess: %(message)s")
        parameters = json.loads(args["model_config"])["parameters"]
        values = {name: json.loads(parameter["string_value"]) for name, parameter in parameters.items()}
        values["chat_template"] = values["chat_template"] or None
        self._pipeline = Pipeline(PreprocessSettings(tokenizer_dir=Path(__file__).parent / "tokenizer", **values))

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response a request, in order. A batch that fails as a whole is tried one by one."""
        try:
            prepared = self._pipeline.prepare([read_request(request) for request in requests])
            return [to_response(result) for result in prepared]
        except Exception:
            if len(requests) > 1:
                return [response for request in requests for response in self.execute([request])]
            logger.exception("a request could not be prepared")
            return [to_error("internal error in the preprocess stage", pb_utils.TritonError.INTERNAL)]


def read_request(request: Any) -> Request:
    """A Triton request as the pipeline takes it: inputs by name, and the request parameters."""
    inputs = {tensor.name(): tensor.as_numpy().ravel() for tensor in request.inputs()}
    return inputs, json.loads(request.parameters() or "{}")


def to_response(result: Prepared | InvalidRequest) -> Any:
    """The engine's inputs as tensors, each with the batch dimension [1, ...]; or the client's error."""
    if isinstance(result, InvalidRequest):
        return to_error(str(result), pb_utils.TritonError.INVALID_ARG)
    end_id, *more_end_ids = result.end_ids or (-1,)
    stops = [*((token,) for token in more_end_ids), *result.stop_words]
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor("input_ids", result.input_ids[np.newaxis]),
            _tensor("input_lengths", len(result.input_ids), np.int32),
            _tensor("request_output_len", result.request_output_len, np.int32),
            _tensor("min_tokens", result.min_tokens, np.int32),
            _tensor("end_id", end_id, np.int32),
            pb_utils.Tensor("stop_words_list", word_list_tensor(stops)[np.newaxis]),
            pb_utils.Tensor("bad_words_list", word_list_tensor(result.bad_words)[np.newaxis]),
            _tensor("temperature", result.temperature, np.float32),
            _tensor("runtime_top_k", result.top_k, np.int32),
            _tensor("runtime_top_p", result.top_p, np.float32),
            _tensor("min_p", result.min_p, np.float32),
            _tensor("repetition_penalty", result.repetition_penalty, np.float32),
            _tensor("presence_penalty", result.presence_penalty, np.float32),
            _tensor("frequency_penalty", result.frequency_penalty, np.float32),
            _tensor("seed", result.seed, np.uint64),
            _tensor("stream_context", result.stream_context.encode("utf-8"), np.object_),
            *_asked_for(result),
        ]
    )


def _asked_for(result: Prepared) -> list[Any]:
    """What few requests ask for and the others need not pay for."""
    tensors = []
    if result.top_logprobs is not None:
        tensors.append(_tensor("return_log_probs", True, np.bool_))
        tensors.append(_tensor("top_logprobs", result.top_logprobs, np.int32))
    texts = {
        "guided_decoding_guide_type": result.guide.type,
        "guided_decoding_guide": result.guide.text,
        "lora_name": result.lora_name,
    }
    tensors += [_tensor(name, text.encode("utf-8"), np.object_) for name, text in texts.items() if text]
    return tensors


def to_error(message: str, code: Any) -> Any:
    """A response that is an error."""
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))


def _tensor(name: str, value: Any, dtype: type) -> Any:
    return pb_utils.Tensor(name, np.array([[value]], dtype))
