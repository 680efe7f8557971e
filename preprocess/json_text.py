"""JSON inside a text input (messages, tools, chat_template_kwargs), read so that what passes can be tokenized."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from .errors import InvalidRequest

_KINDS: dict[type, str] = {list: "a JSON list", dict: "a JSON object"}


def parse_json(field: str, text: str, kind: type) -> Any:
    """Return the list or dict (`kind`) written in `text`.

    Raises InvalidRequest if it is not JSON, is of another kind, nests too deep, or holds NaN, Infinity or a lone
    surrogate (`"\\ud83d"`), which no tokenizer can encode.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidRequest(field, "has half of a surrogate pair (as \\ud83d alone is)") from None
    except RecursionError:
        raise InvalidRequest(field, "is nested too deep") from None
    except ValueError as error:
        raise InvalidRequest(field, f"must be {_KINDS[kind]}: {error}") from None
    if not isinstance(value, kind):
        raise InvalidRequest(field, f"must be {_KINDS[kind]}, got {json_type(value)}")
    return value


def json_type(value: object) -> str:
    """The JSON word for a parsed value's type, for messages to clients."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names: dict[type, str] = {str: "a string", dict: "an object", list: "a list"}
    return names.get(type(value), "a number")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
