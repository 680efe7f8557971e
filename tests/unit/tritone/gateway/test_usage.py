"""Token counts of a request."""

from __future__ import annotations

from tritone.gateway.usage import UsageCount

from .sample_requests import event


def test_a_prompt_counts_once_and_every_token_made_counts() -> None:
    usage = UsageCount(2)
    assert usage.body() == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    for index, sent in enumerate([5, 5, 7, 7]):
        usage.add(index, event("a", 1, sent=sent))
        usage.add(index, event("b", index + 2))
    assert usage.body() == {"prompt_tokens": 12, "completion_tokens": 14, "total_tokens": 26}
