"""The process of a bare engine: loads the engine's own loop and lets it run whenever it is told to.

Runs on the load host, on the Python that has the engine's libraries, which need not have ours: what is imported here
and by the loops is the standard library, the engine's stage and what that needs.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

from perf.records import RequestRecord

READY = "ready"

LOOPS = {
    "openvino": ("bare_openvino", "OpenVinoLoop"),
    "transformers": ("bare_transformers", "TransformersLoop"),
    "vllm": ("bare_vllm", "VllmLoop"),
}


class BareLoop(Protocol):
    """An engine by its own API, with nothing of ours around it."""

    def burst(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[RequestRecord]:
        """Send all prompts at once and return when `tokens` tokens, chosen greedily, have been made for each.

        Times are the system clock's.
        """

    def close(self) -> None:
        """End every process of the engine."""


def make_loop(engine: str, settings: dict[str, Any]) -> BareLoop:
    """The loop of an engine, loaded. `settings` are the adapter's but for those of streams."""
    module, name = LOOPS[engine]
    loop: BareLoop = getattr(importlib.import_module(f"perf.{module}"), name)(**settings)
    return loop


def serve(connection: Any, make: Callable[[str, dict[str, Any]], BareLoop]) -> None:
    """Load what the first message says, then answer each burst with its records, until the far end is closed.

    What is sent first is READY, or the reason why the engine did not load.
    """
    try:
        loop = make(*connection.recv())
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")
        raise
    try:
        connection.send(READY)
        while True:
            connection.send(loop.burst(*connection.recv()))
    except EOFError:
        pass
    finally:
        loop.close()


def main() -> None:
    """Serve the connection whose descriptor is the only argument."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that the engine is closed
    file = int(sys.argv[1])
    os.set_inheritable(file, False)
    serve(Connection(file), make_loop)


if __name__ == "__main__":
    main()
