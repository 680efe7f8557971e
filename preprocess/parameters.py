"""Request parameters: where Triton puts every key of a `generate` body that is not an input of the model.

A misspelt input would land here and be ignored without a word, so anything not known is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping

from .errors import InvalidRequest
from .fields import READERS, did_you_mean

TRITON_PARAMETERS = frozenset(
    {
        "id",
        "priority",
        "timeout",
        "sequence_id",
        "sequence_start",
        "sequence_end",
        "binary_data_output",
        "triton_enable_empty_final_response",
    }
)
# HTTP headers the operator lets through (`--http-header-forward-pattern`) arrive as parameters, too.
FORWARDED_HEADERS = ("x-", "traceparent", "tracestate", "baggage")


def check_parameters(parameters: Mapping[str, object]) -> None:
    """Raise InvalidRequest for the first parameter that nothing here or in Triton reads."""
    for key in parameters:
        if key in TRITON_PARAMETERS or key.lower().startswith(FORWARDED_HEADERS):
            continue
        if key in READERS:
            raise InvalidRequest(key, "was sent as a request parameter; send it as an input tensor")
        raise InvalidRequest(key[:64], f"is neither an input nor a known parameter{did_you_mean(key)}")
