"""The schema of a request's body as a part of the OpenAPI document. Runs in the gateway, at start."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

_DEFINITIONS = "#/$defs/"


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model that stands alone: pydantic's own refers to definitions at the root of a document."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    return dict(_inlined(schema, definitions))


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if reference := node.get("$ref"):
        return _inlined(definitions[reference.removeprefix(_DEFINITIONS)], definitions)
    return {name: _inlined(value, definitions) for name, value in node.items()}
