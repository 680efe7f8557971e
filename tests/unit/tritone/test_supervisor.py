"""The supervisor with servers that live as they are told; nothing is started, and time passes by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from tritone import supervisor
from tritone.config import Config
from tritone.run_dir import RunDir
from tritone.server_process import ServerError, ServerProcess
from tritone.stop_signals import StopSignals
from tritone.supervisor import Supervisor

NEVER = float("inf")


class World:
    """The time, and everything the supervisor deals with: servers, run folder and signals, all at once."""

    def __init__(self, lives_s: list[float], stop_s: float = NEVER, second_signal_s: float = NEVER) -> None:
        self.now_s = 0.0
        self.log: list[str] = []
        self._lives_s = iter(lives_s)
        self._dies_s = NEVER
        self._signals_s = (stop_s, second_signal_s)
        self.streams_end_s = 0.0
        self.unloads_s = 2.0
        self._ends_s = NEVER

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def wait(self, seconds: float) -> bool:
        self.sleep(min(seconds, max(0.0, self._signals_s[0] - self.now_s)))
        return self.is_requested

    @property
    def is_requested(self) -> bool:
        return self.now_s >= self._signals_s[0]

    @property
    def is_forced(self) -> bool:
        return self.now_s >= self._signals_s[1]

    def launch(self) -> ServerProcess:
        self.log.append("launch")
        self._dies_s, self._ends_s = self.now_s + next(self._lives_s), NEVER
        return cast(ServerProcess, self)

    def on_ready(self, is_first: bool) -> None:
        self.log.append("first" if is_first else "again")

    def death(self) -> str:
        return "it died" if self.now_s >= self._dies_s else ""

    def has_ended(self) -> bool:
        return self.now_s >= self._ends_s

    def terminate(self) -> None:
        self.log.append("terminate")
        self._ends_s = self.now_s + self.unloads_s

    def kill(self) -> None:
        self.log.append("kill")

    def clear_server(self) -> None:
        self.log.append("clear")

    def start_draining(self) -> None:
        self.log.append("drain")

    def live_streams(self) -> int:
        return int(self.now_s < self.streams_end_s)


Serve = Callable[[World], bool]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Serves in a world where every server that does not die at once becomes ready."""

    def run(world: World) -> bool:
        def wait_until_ready(*_: Any) -> str:
            return world.death()

        monkeypatch.setattr(supervisor, "wait_until_ready", wait_until_ready)
        monkeypatch.setattr(supervisor, "time", world)
        run_dir, stop = cast(RunDir, world), cast(StopSignals, world)
        return Supervisor(Config(drain_timeout=30), run_dir, stop, world.launch, world.on_ready).serve()

    return run


def test_serves_until_told_to_stop(serve: Serve) -> None:
    world = World([NEVER], stop_s=10)
    assert serve(world)
    assert world.log == ["launch", "first", "drain", "terminate", "kill", "clear"]
    assert world.now_s == pytest.approx(12.3, abs=0.3)


def test_starts_again_what_has_died(serve: Serve) -> None:
    world = World([5, 1, NEVER], stop_s=20)
    assert serve(world)
    died = ["terminate", "kill", "clear"]
    assert world.log[:10] == ["launch", "first", *died, "launch", "again", *died]
    assert world.log[10:12] == ["launch", "again"]


def test_a_first_server_that_is_not_ready_is_the_last(serve: Serve) -> None:
    world = World([0])
    with pytest.raises(ServerError, match=r"^it died$"):
        serve(world)
    assert world.log == ["launch", "kill", "clear"]


def test_gives_up_after_five_restarts(serve: Serve) -> None:
    world = World([1, 0, 0, 0, 0, 0])
    with pytest.raises(ServerError, match="it died; not started again after 5 restarts within 300 s"):
        serve(world)
    assert world.log.count("launch") == 6
    assert world.now_s == pytest.approx(1 + 0.5 + 1 + 2 + 4 + 8, abs=1)


def test_can_be_stopped_between_a_death_and_the_restart(serve: Serve) -> None:
    world = World([5], stop_s=5.5)
    assert serve(world)
    assert world.log[-2:] == ["kill", "clear"]


def test_waits_for_streams_before_triton_hears_of_the_end(serve: Serve) -> None:
    world = World([NEVER], stop_s=10)
    world.streams_end_s = 35.0
    assert serve(world)
    assert world.now_s == pytest.approx(35 + 2, abs=0.5)
    assert world.log[-3:] == ["terminate", "kill", "clear"]


def test_cuts_streams_off_when_their_time_is_up(serve: Serve) -> None:
    world = World([NEVER], stop_s=10)
    world.streams_end_s = NEVER
    assert not serve(world)
    assert world.now_s == pytest.approx(40, abs=0.5)
    assert "terminate" not in world.log


def test_cuts_streams_off_at_the_second_signal(serve: Serve) -> None:
    world = World([NEVER], stop_s=10, second_signal_s=11)
    world.streams_end_s = NEVER
    assert not serve(world)
    assert world.now_s == pytest.approx(11, abs=0.5)


def test_does_not_wait_for_streams_that_died(serve: Serve) -> None:
    world = World([12], stop_s=10)
    world.streams_end_s = NEVER
    assert not serve(world)
    assert world.now_s == pytest.approx(12, abs=0.5)


def test_does_not_wait_for_a_server_that_cannot_end(serve: Serve) -> None:
    world = World([NEVER], stop_s=10)
    world.unloads_s = NEVER
    assert serve(world)
    assert world.now_s == pytest.approx(15.3, abs=0.5)
