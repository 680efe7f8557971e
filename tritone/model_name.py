"""Names a model can have in Triton, where a name is a folder and a part of URLs. Runs in our process."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tritone.errors import ModelError

LONGEST_NAME = 128

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def default_name(path: Path) -> str:
    """The name of a model that was given none: its file's or folder's, in lower case, of a-z 0-9 . _ - only."""
    resolved = path.resolve()
    given = resolved.stem if resolved.suffix.lower() == ".gguf" else resolved.name
    slug = _slug(given)
    return slug if 0 < len(slug) <= LONGEST_NAME else _distinct_name(given)


def triton_name(served_name: str) -> str:
    """The Triton model name behind `served_name`: itself if it is safe, else a safe one made from it, always the same.

    Raises ModelError for a name that is empty, longer than 128 characters, or would leave its folder ("..", "a/../b").
    """
    if not served_name.strip():
        raise ModelError("the model name is empty; give at least one letter or digit")
    if len(served_name) > LONGEST_NAME:
        raise ModelError(f"the model name has {len(served_name)} characters; at most {LONGEST_NAME} are allowed")
    if not served_name.isprintable() or any(part in ("", ".", "..") for part in re.split(r"[/\\]", served_name)):
        raise ModelError(
            f"the model name {served_name!r} is not allowed: no control characters, and no part between slashes may be "
            "empty, '.' or '..'"
        )
    if _SAFE.fullmatch(served_name):
        return served_name
    return _distinct_name(served_name)


def _distinct_name(name: str) -> str:
    """A safe name with a digest, which keeps "a/b" and "a b" apart."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    slug = _slug(name)[: LONGEST_NAME - len(digest) - 1]
    return f"{slug or 'model'}-{digest}"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-._")
