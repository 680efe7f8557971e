"""What cannot work, said so that the reader knows what to change."""

from __future__ import annotations


class BuildError(ValueError):
    """A model, a GPU or options that cannot work; the message names them and what is allowed."""
