"""A request's bytes made a dictionary of values that are safe to pass on: real JSON, finite, text that is Unicode."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from .openai_error import OpenAIError, bad_field
from .request_fields import Route, used_fields

_CODES = {"missing": "missing_required_parameter", "extra_forbidden": "unknown_parameter"}
_WORDS: dict[type, str] = {str: "a string", dict: "an object", list: "a list"}
_MUST_BE = {
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "int_type": "must be an integer",
    "model_type": "must be an object",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}


def read_body(body: bytes, route: Route) -> dict[str, Any]:
    """The values of a generation request that are not null, by name. Raises OpenAIError (400)."""
    return _checked(used_fields(route, _object(body)))


def read_values(body: bytes) -> dict[str, Any]:
    """The values of any other request that are not null, by name. Raises OpenAIError (400)."""
    return _checked({name: value for name, value in _object(body).items() if value is not None})


def _object(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body.decode())
    except UnicodeDecodeError as error:
        raise OpenAIError(400, f"The body is not UTF-8: byte {error.start}.", code="invalid_json") from None
    except RecursionError:
        raise OpenAIError(400, "The body is nested too deep.", code="invalid_json") from None
    except json.JSONDecodeError as error:
        raise OpenAIError(400, f"The body is not JSON: {error}.", code="invalid_json") from None
    except ValueError:
        raise OpenAIError(400, "The body has a number of too many digits.", code="invalid_json") from None
    if not isinstance(values, dict):
        raise OpenAIError(400, f"The body must be a JSON object, got {got(values)}.", code="invalid_json")
    return values


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        _check_encodable(name, value)
    return values


def invalid(error: ValidationError) -> OpenAIError:
    """400 for the first thing a model found wrong."""
    first = error.errors(include_url=False)[0]
    kind, value = first["type"], first["input"]
    where = str(first["loc"][0]) + "".join(_step(step) for step in first["loc"][1:])
    if kind in _CODES:
        return bad_field(where, "is required" if kind == "missing" else "is not known here", _CODES[kind])
    message = _MUST_BE.get(kind) or first["msg"].replace("Input should", "must").replace("a valid ", "a ")
    return bad_field(where, f"{message}, got {got(value)}", "invalid_type" if "_type" in kind else "invalid_value")


def got(value: object) -> str:
    """A value from JSON as an error message shows it: short, and without what a client may have written at length."""
    word = _WORDS.get(type(value))
    if word is None or (isinstance(value, str) and len(value) <= 32):
        return json.dumps(value)[:64]
    return word


def _step(step: int | str) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{step}"


def _check_encodable(name: str, value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise bad_field(name, "has half of a surrogate pair (as \\ud83d alone is)") from None
    except RecursionError:
        raise bad_field(name, "is nested too deep") from None
    except ValueError:
        raise bad_field(name, "NaN and Infinity are not allowed") from None
