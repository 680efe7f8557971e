"""Chat messages checked and brought into the one shape chat templates are written for.

A text part list is joined to one string (parts follow each other directly), `null` values are left out, and tool call
arguments sent as JSON text become objects. Everything else in a message is the template's business and passes through.
"""

from __future__ import annotations

from typing import Any

from .errors import InvalidRequest
from .json_text import json_type, parse_json

Message = dict[str, Any]


def normalize_messages(messages: list[Any]) -> list[Message]:
    """Return new messages whose `content` is a string, or is absent in an assistant message with tool calls.

    Raises InvalidRequest naming the place, as in `messages[2].content`.
    """
    if not messages:
        raise InvalidRequest("messages", "is an empty list, needs at least one message")
    return [_normalize(f"messages[{index}]", message) for index, message in enumerate(messages)]


def _normalize(where: str, message: Any) -> Message:
    if not isinstance(message, dict):
        raise InvalidRequest(where, f"must be an object, got {json_type(message)}")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidRequest(f"{where}.role", f'must be a string such as "user", got {json_type(role)}')
    normal = {key: value for key, value in message.items() if value is not None}
    if normal.get("tool_calls"):
        normal["tool_calls"] = _tool_calls(f"{where}.tool_calls", normal["tool_calls"])
    may_lack_content = role == "assistant" and bool(normal.get("tool_calls"))
    if "content" in normal or not may_lack_content:
        normal["content"] = _text(f"{where}.content", normal.get("content"))
    return normal


def _text(where: str, content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part_text(f"{where}[{index}]", part) for index, part in enumerate(content))
    hint = "; only an assistant message with tool_calls may leave it out" if content is None else ""
    raise InvalidRequest(where, f"must be a string or a list of text parts, got {json_type(content)}{hint}")


def _part_text(where: str, part: Any) -> str:
    if not isinstance(part, dict):
        raise InvalidRequest(where, f'must be an object such as {{"type": "text", "text": "…"}}, got {json_type(part)}')
    if part.get("type") != "text":
        raise InvalidRequest(where, f"has type {str(part.get('type'))[:64]!r}; this model takes text parts only")
    if not isinstance(part.get("text"), str):
        raise InvalidRequest(f"{where}.text", f"must be a string, got {json_type(part.get('text'))}")
    text: str = part["text"]
    return text


def _tool_calls(where: str, calls: Any) -> list[Any]:
    if not isinstance(calls, list):
        raise InvalidRequest(where, f"must be a list, got {json_type(calls)}")
    return [_tool_call(f"{where}[{index}]", call) for index, call in enumerate(calls)]


def _tool_call(where: str, call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise InvalidRequest(where, "must be an object whose function has a name")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = parse_json(f"{where}.function.arguments", arguments or "{}", dict)
    elif not isinstance(arguments, dict | None):
        raise InvalidRequest(f"{where}.function.arguments", f"must be an object, got {json_type(arguments)}")
    return {**call, "function": {**function, "arguments": arguments or {}}}
