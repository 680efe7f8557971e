from __future__ import annotations

import pytest

from preprocess.errors import InvalidRequest
from preprocess.fields import RequestFields
from preprocess.guide import FREE, Guide, read_guide


def fields(guide_type: str | None, guide: str | None) -> RequestFields:
    return RequestFields(guided_decoding_guide_type=guide_type, guided_decoding_guide=guide)


def test_an_answer_is_free_unless_asked_otherwise() -> None:
    assert read_guide(RequestFields()) == FREE == Guide("", "")


@pytest.mark.parametrize(
    ("guide_type", "guide"),
    [
        ("json", None),
        ("json_schema", "{}"),
        ("json_schema", '{"type": "object", "properties": {"é": {"enum": [1.5, null]}}}'),
        ("regex", "(yes|no)"),
        ("regex", "["),  # only the engine knows its dialect
        ("ebnf_grammar", 'root ::= "a"'),
        ("choice", '["yes"]'),
        ("choice", '["é", "", "yes"]'),
    ],
)
def test_guides_reach_the_engine_as_they_were_sent(guide_type: str, guide: str | None) -> None:
    assert read_guide(fields(guide_type, guide)) == Guide(guide_type, guide or "")


ALLOWED = "allowed: json, json_schema, regex, ebnf_grammar, choice"


@pytest.mark.parametrize(
    ("guide_type", "guide", "text"),
    [
        (None, "{}", f"guided_decoding_guide: needs guided_decoding_guide_type; {ALLOWED}"),
        ("", None, f"guided_decoding_guide_type: got '', {ALLOWED}"),
        ("xml", "{}", f"guided_decoding_guide_type: got 'xml', {ALLOWED}"),
        ("JSON", None, f"guided_decoding_guide_type: got 'JSON', {ALLOWED}"),
        ("x" * 500, None, f"guided_decoding_guide_type: got '{'x' * 32}', {ALLOWED}"),
        ("json_schema", None, "guided_decoding_guide_type: json_schema needs guided_decoding_guide"),
        ("regex", None, "guided_decoding_guide_type: regex needs guided_decoding_guide"),
        ("ebnf_grammar", None, "guided_decoding_guide_type: ebnf_grammar needs guided_decoding_guide"),
        ("choice", None, "guided_decoding_guide_type: choice needs guided_decoding_guide"),
        (
            "json",
            "{}",
            "guided_decoding_guide: is not for guided_decoding_guide_type=json, which takes any JSON object; "
            "send json_schema",
        ),
        ("json_schema", "[]", "guided_decoding_guide: must be a JSON object, got a list"),
        ("json_schema", "true", "guided_decoding_guide: must be a JSON object, got true"),
        ("json_schema", '{"a": NaN}', "guided_decoding_guide: must be a JSON object: NaN is not JSON"),
        (
            "json_schema",
            '{"a": "\\ud83d"}',
            "guided_decoding_guide: has half of a surrogate pair (as \\ud83d alone is)",
        ),
        ("json_schema", '{"a":' * 100_000, "guided_decoding_guide: is nested too deep"),
        ("regex", "", "guided_decoding_guide: is empty"),
        ("ebnf_grammar", "", "guided_decoding_guide: is empty"),
        ("choice", "{}", "guided_decoding_guide: must be a JSON list, got an object"),
        ("choice", "[]", "guided_decoding_guide: is an empty list, needs at least one text to choose"),
        ("choice", '["a", 1]', "guided_decoding_guide[1]: must be a string, got a number"),
        ("choice", '[["a"]]', "guided_decoding_guide[0]: must be a string, got a list"),
    ],
)
def test_what_is_no_guide_is_named(guide_type: str | None, guide: str | None, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_guide(fields(guide_type, guide))
    assert str(caught.value) == text
