"""How many log probabilities a request asks for."""

from __future__ import annotations

from .errors import InvalidRequest
from .fields import RequestFields

MAX_TOP_LOGPROBS = 20


def resolve_top_logprobs(fields: RequestFields) -> int | None:
    """The number of likeliest tokens to tell beside each one that is made, 0 and up; None for no log probabilities.

    Raises InvalidRequest.
    """
    if not fields.return_log_probs:
        if fields.top_logprobs is not None:
            raise InvalidRequest("top_logprobs", "needs return_log_probs=true")
        return None
    count = fields.top_logprobs or 0
    if not 0 <= count <= MAX_TOP_LOGPROBS:
        raise InvalidRequest("top_logprobs", f"got {count}, allowed: 0 to {MAX_TOP_LOGPROBS}")
    return count
