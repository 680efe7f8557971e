"""API keys: read, and compared. Runs in the gateway, and in the launcher before it. A key is never logged."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from tritone.errors import TritoneError

VARIABLE = "TRITONE_API_KEYS"


class ApiKeyError(TritoneError):
    """The keys cannot be had, or one of them cannot be sent by any client."""


class ApiKeys:
    """A set of keys, held as digests."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = {_digest(key) for key in keys}

    def __bool__(self) -> bool:
        return bool(self._digests)

    def has(self, key: str) -> bool:
        """Whether `key` is one of them, in a time that tells nothing of them."""
        given = _digest(key)
        return sum(hmac.compare_digest(given, known) for known in self._digests) > 0


def load_keys(path: str | None, environment: Mapping[str, str]) -> ApiKeys:
    """The keys of the file `path` (one a line, # begins a comment) and of TRITONE_API_KEYS (commas between).

    Raises ApiKeyError, also when the file has none: it was given to keep others out.
    """
    keys = _of_file(path) if path else []
    keys += [key.strip() for key in environment.get(VARIABLE, "").split(",") if key.strip()]
    if not all(key.isascii() and key.isprintable() and " " not in key for key in keys):
        raise ApiKeyError(f"an API key of {path or VARIABLE} has a blank or a character outside ASCII")
    return ApiKeys(keys)


def _of_file(path: str) -> list[str]:
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError as error:
        raise ApiKeyError(f"api_key_file: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ApiKeyError(f"api_key_file: {path} is not UTF-8") from error
    keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not keys:
        raise ApiKeyError(f"api_key_file: {path} has no key")
    return keys


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogateescape")).digest()
