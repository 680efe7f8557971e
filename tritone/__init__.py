"""Tritone's own process: command line, configuration, provisioning, launcher."""

from __future__ import annotations

__version__ = "0.1.0"
