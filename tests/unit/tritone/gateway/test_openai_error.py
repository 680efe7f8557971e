"""The error object."""

from __future__ import annotations

import pytest

from tritone.gateway.openai_error import OpenAIError, bad_field, internal_error, model_not_found


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "invalid_request_error", "invalid_api_key"),
        (404, "invalid_request_error", "not_found"),
        (408, "timeout_error", "timeout"),
        (413, "invalid_request_error", "request_too_large"),
        (429, "rate_limit_error", "rate_limit_exceeded"),
        (500, "server_error", "internal_error"),
        (503, "server_error", "service_unavailable"),
        (504, "timeout_error", "timeout"),
    ],
)
def test_type_and_code_follow_from_the_status(status: int, kind: str, code: str | None) -> None:
    assert OpenAIError(status, "text").body() == {
        "error": {"message": "text", "type": kind, "param": None, "code": code}
    }


def test_type_and_code_can_be_given() -> None:
    error = OpenAIError(429, "text", param="n", code="insufficient_quota", type="requests")
    assert error.body()["error"] == {"message": "text", "type": "requests", "param": "n", "code": "insufficient_quota"}


def test_ready_made_errors() -> None:
    assert bad_field("n", "got 0").message == "n: got 0"
    assert model_not_found("x" * 300).message == f"The model {'x' * 200!r} does not exist."
    assert internal_error("r").status == 500
