"""Engine requests from tensors. Runs in the engine stage; names and layouts are TensorRT-LLM's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .adapter import EngineRequest, RefusedError

Reader = Callable[[str], "npt.NDArray[Any] | None"]


def engine_request(key: int, read: Reader) -> EngineRequest:
    """The request whose tensors `read` gives by name, None for one that is absent. Raises RefusedError."""
    prompt = read("input_ids")
    if prompt is None or prompt.size == 0:
        raise RefusedError("input_ids: expected at least one token id")
    stops = word_sequences(read("stop_words_list"))
    end_id = int(_scalar(read, "end_id", -1))
    return EngineRequest(
        key=key,
        prompt_ids=tuple(prompt.ravel().tolist()),
        max_tokens=int(_scalar(read, "request_output_len", 16)),
        min_tokens=int(_scalar(read, "min_tokens", 0)),
        end_ids=(end_id,) if end_id >= 0 else (),
        stop_sequences=stops,
        bad_sequences=word_sequences(read("bad_words_list")),
        temperature=float(_scalar(read, "temperature", 0.0)),
        top_k=int(_scalar(read, "runtime_top_k", 0)),
        top_p=float(_scalar(read, "runtime_top_p", 1.0)),
        min_p=float(_scalar(read, "min_p", 0.0)),
        repetition_penalty=float(_scalar(read, "repetition_penalty", 1.0)),
        presence_penalty=float(_scalar(read, "presence_penalty", 0.0)),
        frequency_penalty=float(_scalar(read, "frequency_penalty", 0.0)),
        seed=int(_scalar(read, "seed", 0)),
        top_logprobs=int(_scalar(read, "top_logprobs", 0)) if _scalar(read, "return_log_probs", False) else None,
        guide_type=_text(read, "guided_decoding_guide_type"),
        guide=_text(read, "guided_decoding_guide"),
        lora_name=_text(read, "lora_name"),
    )


def word_sequences(tensor: npt.NDArray[np.int32] | None) -> tuple[tuple[int, ...], ...]:
    """Token sequences from a word list [1, 2, n]: row 0 the ids, row 1 where each sequence ends, padded with -1."""
    if tensor is None or tensor.size == 0:
        return ()
    ids, ends = tensor.reshape(2, -1).tolist()
    sequences = []
    start = 0
    for end in ends:
        if end < 0:
            break
        sequences.append(tuple(ids[start:end]))
        start = end
    return tuple(sequences)


def _scalar(read: Reader, name: str, default: float) -> Any:
    tensor = read(name)
    return default if tensor is None else tensor.ravel()[0]


def _text(read: Reader, name: str) -> str:
    tensor = read(name)
    return "" if tensor is None else str(tensor.ravel()[0], "utf-8")
