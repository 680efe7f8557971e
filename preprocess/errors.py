"""The one error a client can cause in this stage; the adapter answers it as INVALID_ARGUMENT."""

from __future__ import annotations


class InvalidRequest(ValueError):
    """A request that cannot be served as sent.

    `field` names the input (or the place inside it, as in `messages[2].content`), `message` says what was got and what
    is allowed. `str(error)` joins both and is meant for the client.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
