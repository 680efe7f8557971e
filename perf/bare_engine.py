"""An engine's own loop in a process of its own, by the parent's end: what the ensemble is measured by.

Runs on the load host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from perf.bare_process import READY
from perf.child_process import child_process, last_words
from perf.engine_choice import EngineChoice
from perf.environment import SOURCE
from perf.records import RequestRecord
from tritone.errors import TritoneError

READY_TIMEOUT_S = 900.0
BURST_TIMEOUT_S = 600.0


class BareEngineError(TritoneError):
    """The process of the bare engine has ended, or does not answer."""


class BareEngine:
    """The parent's end. Between bursts the process waits for the next and uses no CPU."""

    def __init__(self, pid: int, connection: Any, log: Path) -> None:
        self.pid = pid
        self._connection = connection
        self._log = log

    def load(self, engine: str, settings: Mapping[str, Any]) -> None:
        """Have the engine loaded, with the settings of its adapter. Raises BareEngineError."""
        answer = self._ask((engine, dict(settings)), READY_TIMEOUT_S)
        if answer != READY:
            raise BareEngineError(f"{engine} alone did not load: {answer} (all it said is in {self._log})")

    def burst(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[RequestRecord]:
        """Send all prompts at once and have `tokens` made for each. Times are the system clock's. BareEngineError."""
        records: list[RequestRecord] = self._ask((prompts, tokens), BURST_TIMEOUT_S)
        return records

    def _ask(self, message: Any, timeout_s: float) -> Any:
        try:
            self._connection.send(message)
            if self._connection.poll(timeout_s):
                return self._connection.recv()
        except (EOFError, OSError) as error:
            raise BareEngineError(
                f"the process of the bare engine has ended: {last_words(self._log)} (all it said is in {self._log})"
            ) from error
        raise BareEngineError(f"the bare engine did not answer within {timeout_s:g} s: look into {self._log}")


@contextmanager
def bare_engine(choice: EngineChoice, settings: Mapping[str, Any], log: Path) -> Iterator[BareEngine]:
    """An engine that is loaded; what its process says goes to the end of `log`. Raises BareEngineError."""
    connection, far_end = Pipe()
    arguments = ["-m", "perf.bare_process", str(far_end.fileno())]
    with (
        closing(connection),
        child_process(choice.python, arguments, SOURCE, log, [far_end.fileno()]) as process,
    ):
        far_end.close()
        engine = BareEngine(process.pid, connection, log)
        engine.load(choice.name, settings)
        yield engine
