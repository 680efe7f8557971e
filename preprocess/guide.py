"""What an answer must match, for engines that can be guided: NVIDIA's two fields, checked before an engine sees them.

A regular expression and a grammar are the engine's own dialect, which only the engine can check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .errors import InvalidRequest
from .fields import RequestFields
from .json_text import json_type, parse_json

_TYPE, _GUIDE = "guided_decoding_guide_type", "guided_decoding_guide"
_SHOWN_CHARS = 32


class Guide(NamedTuple):
    """The kind of guide, "" for an answer that is free, and its text, "" for `json`."""

    type: str
    text: str


FREE = Guide("", "")


def read_guide(fields: RequestFields) -> Guide:
    """The guide that a request asks for. Raises InvalidRequest."""
    guide_type, text = fields.guided_decoding_guide_type, fields.guided_decoding_guide
    if guide_type is None:
        if text is not None:
            raise InvalidRequest(_GUIDE, f"needs {_TYPE}; allowed: {_ALLOWED}")
        return FREE
    if guide_type not in _CHECKS:
        raise InvalidRequest(_TYPE, f"got {guide_type[:_SHOWN_CHARS]!r}, allowed: {_ALLOWED}")
    check = _CHECKS[guide_type]
    if check is None:
        if text is not None:
            raise InvalidRequest(
                _GUIDE, f"is not for {_TYPE}={guide_type}, which takes any JSON object; send json_schema"
            )
        return Guide(guide_type, "")
    if text is None:
        raise InvalidRequest(_TYPE, f"{guide_type} needs {_GUIDE}")
    check(text)
    return Guide(guide_type, text)


def _check_schema(text: str) -> None:
    parse_json(_GUIDE, text, dict)


def _check_choices(text: str) -> None:
    choices = parse_json(_GUIDE, text, list)
    if not choices:
        raise InvalidRequest(_GUIDE, "is an empty list, needs at least one text to choose")
    for index, choice in enumerate(choices):
        if not isinstance(choice, str):
            raise InvalidRequest(f"{_GUIDE}[{index}]", f"must be a string, got {json_type(choice)}")


def _check_text(text: str) -> None:
    if not text:
        raise InvalidRequest(_GUIDE, "is empty")


_CHECKS: dict[str, Callable[[str], None] | None] = {
    "json": None,
    "json_schema": _check_schema,
    "regex": _check_text,
    "ebnf_grammar": _check_text,
    "choice": _check_choices,
}
_ALLOWED = ", ".join(_CHECKS)
