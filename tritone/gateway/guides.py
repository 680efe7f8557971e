"""What an answer must match: OpenAI's `response_format`, vLLM's `guided_*` and `structured_outputs`, as one guide."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema

from .openai_error import bad_field
from .request_body import got
from .strict_model import StrictModel


class Guide(NamedTuple):
    """The ensemble's type of guide, and the guide itself, "" for `json`."""

    type: str
    text: str


def _schema(value: Any) -> Any:
    """A JSON Schema, which vLLM's clients may send as an object or written out."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


JsonSchema = Annotated[
    dict[str, Any],
    BeforeValidator(_schema),
    WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "string", "contentMediaType": "application/json"}]}),
]
Expression = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[str], Field(min_length=1)]


class JsonSchemaFormat(StrictModel):
    """A named schema. `strict` or not, an answer that is guided has no other choice."""

    name: str | None = None
    description: str | None = None
    json_schema: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class ResponseFormat(StrictModel):
    """OpenAI's form."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None

    def guide(self) -> Guide | None:
        """The guide, None for plain text. Raises OpenAIError where the schema does not go with the type."""
        if self.json_schema is None:
            if self.type == "json_schema":
                raise bad_field("response_format.json_schema", "is required", "missing_required_parameter")
            return Guide("json", "") if self.type == "json_object" else None
        if self.type != "json_schema":
            raise bad_field("response_format.json_schema", f'goes with type "json_schema" only, got {got(self.type)}')
        return guide_of("json", self.json_schema.json_schema)


class StructuredOutputs(StrictModel):
    """vLLM's newer form: an object with one of these."""

    json_schema: Annotated[JsonSchema | None, Field(alias="json")] = None
    regex: Expression | None = None
    choice: Texts | None = None
    grammar: Expression | None = None
    json_object: bool | None = None

    def guide(self) -> Guide:
        """The guide. Raises OpenAIError unless there is exactly one."""
        values = {"json": self.json_schema, "regex": self.regex, "choice": self.choice, "grammar": self.grammar}
        guides = [guide for kind, value in values.items() if (guide := guide_of(kind, value))]
        guides += [Guide("json", "")] if self.json_object else []
        if len(guides) != 1:
            allowed = "exactly one of json, regex, choice, grammar and json_object=true"
            raise bad_field("structured_outputs", f"has {len(guides)} guides, allowed: {allowed}")
        return guides[0]


def one_guide(asked: Mapping[str, Guide | None]) -> Guide | None:
    """The guide among those by field name. Raises OpenAIError where there are several."""
    fields = [field for field, guide in asked.items() if guide]
    if len(fields) > 1:
        raise bad_field(fields[1], f"sent together with {fields[0]}; send one of them")
    return asked[fields[0]] if fields else None


_TYPES = {"json": "json_schema", "regex": "regex", "choice": "choice", "grammar": "ebnf_grammar"}


def guide_of(kind: str, value: Any) -> Guide | None:
    """The guide that vLLM calls `guided_<kind>`, None where none was sent."""
    return None if value is None else Guide(_TYPES[kind], value if isinstance(value, str) else json.dumps(value))
