"""What each engine cannot do: one table for the refusals and for docs/engines.md. Runs in the engine stage.

Every other field of the contract is honoured by every engine, or is none of an engine's business.
"""

from __future__ import annotations

from collections.abc import Callable

from .adapter import EngineRequest, RefusedError

REFUSED = {
    "openvino": {
        "bad_words": "cannot ban words",
        "return_log_probs": "gives no log probabilities",
        "guided_decoding_guide_type": "cannot be guided",
        "lora_name": "serves the model without adapters",
    },
    "scripted": {
        "bad_words": "plays what it is told and cannot ban words",
        "guided_decoding_guide_type": "plays what it is told and cannot be guided",
        "lora_name": "has no model that an adapter could change",
    },
    "transformers": {
        "guided_decoding_guide_type": "cannot be guided",
        "lora_name": "serves the model without adapters",
    },
    "vllm": {"temperature": "takes 0, or 0.01 to 2"},
}
"""For each engine the fields it refuses, or some values of them, and why: "the <engine> engine <why>"."""

NOTES = {"openvino": {"seed": "repeats an answer only while no other is made"}}
"""What is to be known of fields that an engine honours."""

_IS_ASKED: dict[str, Callable[[EngineRequest], bool]] = {
    "bad_words": lambda request: bool(request.bad_sequences),
    "return_log_probs": lambda request: request.top_logprobs is not None,
    "guided_decoding_guide_type": lambda request: bool(request.guide_type),
    "lora_name": lambda request: bool(request.lora_name),
    "temperature": lambda request: request.temperature != 0 and not 0.01 <= request.temperature <= 2,
}


def check_supported(engine: str, request: EngineRequest) -> None:
    """Raise RefusedError for the first field of the request that the engine does not honour as it is."""
    for name, reason in REFUSED[engine].items():
        if _IS_ASKED[name](request):
            raise RefusedError(f"{name}: the {engine} engine {reason}")
