"""Errors as OpenAI's clients know them: a status and `{"error": {"message", "type", "param", "code"}}`.

Everything a client is ever told of an error goes through here, so that no text of an unknown error reaches it.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class _Kind(NamedTuple):
    type: str
    code: str | None


_KINDS = {
    400: _Kind("invalid_request_error", None),
    401: _Kind("invalid_request_error", "invalid_api_key"),
    403: _Kind("permission_error", None),
    404: _Kind("invalid_request_error", "not_found"),
    405: _Kind("invalid_request_error", "method_not_allowed"),
    408: _Kind("timeout_error", "timeout"),
    413: _Kind("invalid_request_error", "request_too_large"),
    415: _Kind("invalid_request_error", "unsupported_media_type"),
    429: _Kind("rate_limit_error", "rate_limit_exceeded"),
    503: _Kind("server_error", "service_unavailable"),
    504: _Kind("timeout_error", "timeout"),
}
_UNKNOWN = _Kind("server_error", "internal_error")


class OpenAIError(Exception):
    """An answer that is an error. `message` is public. `param` names the request's field at fault, if one is.

    `type` and `code` follow from the status where they are not given.
    """

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, type: str | None = None
    ) -> None:
        super().__init__(message)
        kind = _KINDS.get(status, _UNKNOWN)
        self.status = status
        self.message = message
        self.param = param
        self.code = code or kind.code
        self.type = type or kind.type

    def body(self) -> dict[str, Any]:
        """The JSON object of the answer, and of the error event in a stream."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def bad_field(param: str, message: str, code: str = "invalid_value") -> OpenAIError:
    """400 for a field; `message` says what was got and what is allowed, without the field's name."""
    return OpenAIError(400, f"{param}: {message}", param=param, code=code)


def model_not_found(model: str) -> OpenAIError:
    """404 for a model that is not served."""
    return OpenAIError(404, f"The model {model[:200]!r} does not exist.", param="model", code="model_not_found")


def too_many_requests(status: int) -> OpenAIError:
    """429 or 503, as configured, for what is refused because there is too much of it."""
    return OpenAIError(status, "The server has too many requests; try again.")


def shutting_down() -> OpenAIError:
    """503 for what comes when the server is ending, or is cut off by its end."""
    return OpenAIError(503, "The server is shutting down; try again.")


def unavailable() -> OpenAIError:
    """503 for a model server that is away, starting, ending or broken: a fixed text, the log has the rest."""
    return OpenAIError(503, "The model server is not available; try again.")


def internal_error(request_id: str) -> OpenAIError:
    """500 for everything unexpected: a fixed text, and the id under which the log has the rest."""
    return OpenAIError(500, f"The server had an error while processing your request. Request id: {request_id}")
