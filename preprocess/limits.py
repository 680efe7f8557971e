"""Lengths in tokens: prompt and answer together never pass the model's context. Nothing is ever clamped."""

from __future__ import annotations

from .errors import InvalidRequest


def check_prompt_length(field: str, prompt_len: int, max_model_len: int) -> None:
    """Raise InvalidRequest for an empty prompt, or one that leaves no room for at least one token."""
    if prompt_len == 0:
        raise InvalidRequest(field, "the prompt has no tokens")
    if prompt_len >= max_model_len:
        raise InvalidRequest(
            field,
            f"the prompt has {prompt_len} tokens, allowed: {max_model_len - 1} (context {max_model_len}, answer 1)",
        )


def resolve_output_len(max_tokens: int | None, prompt_len: int, max_model_len: int) -> int:
    """Tokens the answer may have: what the client asked for, or all that is left. Raises InvalidRequest."""
    room = max_model_len - prompt_len
    if max_tokens is None:
        return room
    if max_tokens < 1:
        raise InvalidRequest("max_tokens", f"got {max_tokens}, must be at least 1")
    if max_tokens > room:
        raise InvalidRequest(
            "max_tokens",
            f"got {max_tokens}, allowed: {room} (context {max_model_len} minus {prompt_len} tokens of prompt)",
        )
    return max_tokens


def resolve_min_tokens(min_tokens: int | None, output_len: int) -> int:
    """Tokens the answer must have, 0 if the client does not say. Raises InvalidRequest."""
    if min_tokens is None:
        return 0
    if not 0 <= min_tokens <= output_len:
        raise InvalidRequest("min_tokens", f"got {min_tokens}, allowed: 0 to {output_len} (longest answer)")
    return min_tokens
