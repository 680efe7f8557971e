"""Hypothesis for tensors: the first call of an operation is slow, which is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
