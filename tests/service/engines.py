"""The engines that compute, and how a test starts each: the same tests run against all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .serving import Server, launched, serve

ENVIRONMENT = Path(__file__).parents[2] / ".venv-vllm"
"""Where vLLM and PyTorch are: `make venv-vllm` makes it."""

_OPTIONS: dict[str, tuple[str, ...]] = {
    "openvino": (),
    "transformers": ("--engine-env", str(ENVIRONMENT), "--set", "dtype=float32"),
    # compiled it would be faster, but only after a minute
    "vllm": ("--engine-env", str(ENVIRONMENT), "--set", "dtype=float32", "--set", "enforce_eager=true"),
}
_READY_TIMEOUT_S = 180.0

needs_environment = pytest.mark.skipif(
    not (ENVIRONMENT / "ready-vllm").is_file(), reason="its libraries are not installed: make venv-vllm"
)
ENGINES = [
    pytest.param(engine, marks=[needs_environment] if "--engine-env" in options else [])
    for engine, options in _OPTIONS.items()
]


@contextmanager
def serve_with(engine: str, folder: Path, model: Path | None, *options: str) -> Iterator[Server]:
    """A server with this engine that is ready; see `serve`."""
    given = (*_OPTIONS[engine], *options)
    with serve(folder, model, *given, engine=engine, ready_timeout_s=_READY_TIMEOUT_S) as server:
        yield server


@contextmanager
def launched_with(engine: str, folder: Path, model: Path | None, *options: str) -> Iterator[Server]:
    """The same, but what becomes of it is the test's business; see `launched`."""
    with launched(folder, model, *_OPTIONS[engine], *options, engine=engine) as server:
        server.wait_until_ready(_READY_TIMEOUT_S)
        yield server
