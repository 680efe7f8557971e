"""The LoRA adapter that a request asks for. Which there are is the engine's knowledge."""

from __future__ import annotations

from .errors import InvalidRequest
from .fields import RequestFields


def read_lora_name(fields: RequestFields) -> str:
    """The adapter's name, "" for the model as it is. Raises InvalidRequest."""
    if fields.lora_name == "":
        raise InvalidRequest("lora_name", "is empty; leave it out for the model as it is")
    return fields.lora_name or ""
