"""Requests made up from the OpenAPI document, valid and not: none of them breaks anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from .gateway import Gateway, beside, text_of
from .gateway import complete as complete_once
from .serving import serve

pytestmark = [
    pytest.mark.service,
    pytest.mark.filterwarnings("ignore"),  # the library's own
]

schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = 50
RARELY_MET = {
    *(
        "bad_words",
        "chat_template_kwargs",
        "continue_final_message",
        "max_completion_tokens",
        "max_tokens",
        "min_tokens",
    ),
    *("guided_choice", "guided_grammar", "guided_json", "guided_regex", "response_format", "structured_outputs"),
    *("n", "reasoning_effort", "stop_token_ids", "stream_options", "tools", "top_logprobs"),
}
"""Fields whose valid values are mostly too large for the toy model, or not for it: left out of valid requests."""

POSTS = {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Gateway]:
    options = ("--set", "tokens_per_second=20000", "--max-model-len", "64", "--max-num-seqs", "64")
    with serve(tmp_path_factory.mktemp("schema"), toy_model, *options) as server:
        yield beside(server)


@pytest.mark.parametrize("is_valid", [True, False])
def test_no_made_up_request_is_answered_with_5xx_or_422(front: Gateway, is_valid: bool) -> None:
    schema = schemathesis.openapi.from_url(f"{front.url}/openapi.json")
    seen: dict[str, set[int]] = {}
    for operation in [result.ok() for result in schema.get_all_operations()]:
        if is_valid or operation.path in POSTS:
            try_out(operation, is_valid, seen.setdefault(operation.path, set()))
    assert set(seen) >= POSTS
    if is_valid:
        assert {path for path, statuses in seen.items() if 200 in statuses} >= POSTS
    assert text_of(complete_once(front, "still here")) == "still here"


def try_out(operation: Any, is_valid: bool, statuses: set[int]) -> None:
    """Call one operation with made-up requests, always the same ones."""
    mode = schemathesis.GenerationMode.POSITIVE if is_valid else schemathesis.GenerationMode.NEGATIVE

    @settings(
        max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        if is_valid and isinstance(case.body, dict):
            case.body = known(case.body)
        reply = case.call(timeout=20)
        statuses.add(reply.status_code)
        assert reply.status_code < 500, reply.text
        assert reply.status_code != 422, reply.text

    call()


def known(body: dict[str, Any]) -> dict[str, Any]:
    """A made-up body for a model that is there, every other one with messages that its template takes."""
    kept = {name: value for name, value in body.items() if name not in RARELY_MET} | {"model": "toy"}
    is_chat_to_mend = "messages" in kept and len(kept) % 2
    return kept | ({"messages": [{"role": "user", "content": "hi"}]} if is_chat_to_mend else {})
