"""Which token ids end an answer.

The model's own end tokens, or the client's `end_id` in their place (as in NVIDIA's ensemble; -1 means none), or nothing
with `ignore_eos`; then `stop_token_ids` in any case.
"""

from __future__ import annotations

from .errors import InvalidRequest
from .fields import RequestFields
from .token_ids import check_ids

MAX_STOP_TOKEN_IDS = 256


def resolve_end_ids(fields: RequestFields, model_eos: tuple[int, ...], vocab_size: int) -> tuple[int, ...]:
    """Return the ids without repeats, the model's first. Raises InvalidRequest for an id outside the vocabulary."""
    for name, token in (("end_id", fields.end_id), ("pad_id", fields.pad_id)):
        if token is not None and not -1 <= token < vocab_size:
            raise InvalidRequest(name, f"got {token}, allowed: 0 to {vocab_size - 1}, or -1 for none")
    eos = model_eos if fields.end_id is None else (fields.end_id,)
    if fields.ignore_eos or fields.end_id == -1:
        eos = ()
    return tuple(dict.fromkeys((*eos, *_stop_token_ids(fields, vocab_size))))


def _stop_token_ids(fields: RequestFields, vocab_size: int) -> list[int]:
    ids = fields.stop_token_ids
    if ids is None:
        return []
    if ids.size > MAX_STOP_TOKEN_IDS:
        raise InvalidRequest("stop_token_ids", f"has {ids.size} entries, allowed: {MAX_STOP_TOKEN_IDS}")
    check_ids("stop_token_ids", ids, vocab_size)
    as_ints: list[int] = ids.tolist()
    return as_ints
