"""The launcher's side of the gateway, with processes that live as they are told; time passes by itself."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, cast

import pytest

from tritone import gateway_child
from tritone.config import Config, ConfigError
from tritone.gateway.settings import GatewayConfig
from tritone.gateway_child import GatewayChild, GatewayError, gateway_config
from tritone.run_dir import RunDir
from tritone.stop_signals import StopSignals


class World:
    """The time, and a gateway that is started over and over."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.started_s: list[float] = []
        self.returncode: int | None = None
        self.answers_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def start(self, *_: Any) -> World:
        self.started_s.append(self.now_s)
        self.returncode = None
        return self

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, seconds: float = 0.0) -> bool:
        self.now_s += seconds
        return False


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(gateway_child, "time", world)
    monkeypatch.setattr(gateway_child, "start", world.start)
    monkeypatch.setattr(gateway_child, "kill_processes", lambda path: None)
    monkeypatch.setattr(GatewayChild, "_answers", lambda self: world.now_s >= world.answers_s)
    return world


@pytest.fixture
def child(world: World, tmp_path: Path) -> GatewayChild:
    child = GatewayChild(GatewayConfig(), RunDir(tmp_path))
    child.start()
    return child


def stop_of(world: World) -> StopSignals:
    return cast(StopSignals, world)


def test_is_waited_for(world: World, child: GatewayChild) -> None:
    world.answers_s = 102.0
    child.wait_until_up(stop_of(world))
    assert world.now_s == pytest.approx(102, abs=0.11)


def test_one_that_ends_before_it_answers_is_an_error(world: World, child: GatewayChild) -> None:
    world.answers_s, world.returncode = 200.0, 3
    with pytest.raises(GatewayError, match="the gateway ended with status 3 before it answered"):
        child.wait_until_up(stop_of(world))


def test_one_that_never_answers_is_an_error(world: World, child: GatewayChild) -> None:
    world.answers_s = 1000.0
    with pytest.raises(GatewayError, match="does not answer after 60 s"):
        child.wait_until_up(stop_of(world))


def test_is_started_again_after_a_while_without_holding_anything_up(world: World, child: GatewayChild) -> None:
    child.keep_alive()
    world.returncode = -9
    child.keep_alive()
    assert (len(world.started_s), child.has_ended()) == (1, True)
    world.now_s += 0.4
    child.keep_alive()
    assert len(world.started_s) == 1
    world.now_s += 0.2
    child.keep_alive()
    assert (len(world.started_s), child.has_ended()) == (2, False)


def test_is_given_up_after_five_restarts(world: World, child: GatewayChild) -> None:
    def die_over_and_over() -> None:
        for _ in range(1000):
            world.returncode = 1
            child.keep_alive()
            world.now_s += 1

    with pytest.raises(GatewayError, match="status 1; not started again after 5 restarts within 300 s"):
        die_over_and_over()
    assert len(world.started_s) == 6


@pytest.mark.parametrize(
    ("status", "is_complete"), [(None, False), (0, True), (1, False), (-signal.SIGKILL, False), (-signal.SIGTERM, True)]
)
def test_complete_is_what_ended_by_itself(
    world: World, child: GatewayChild, status: int | None, is_complete: bool
) -> None:
    world.returncode = status
    assert child.is_complete() == is_complete


def test_its_configuration_follows_the_launchers() -> None:
    config = Config(host="::", http_port=1, metrics_port=2, drain_timeout=3, log_format="json", gateway={"workers": 4})
    assert gateway_config(config, {"TRITONE_GATEWAY_MAX_CHOICES": "5", "TRITONE_GATEWAY_PORT": "6"}) == GatewayConfig(
        triton="[::1]:1",
        triton_metrics="[::1]:2",
        host="::",
        drain_timeout_s=3,
        log_format="json",
        workers=4,
        max_choices=5,
    )
    assert gateway_config(Config(gateway_host="0.0.0.0", gateway_port=7), {}).host == "0.0.0.0"


@pytest.mark.parametrize(
    ("table", "environment", "message"),
    [
        ({}, {"TRITONE_GATEWAY_TRITON": "h:1"}, "gateway: triton: `tritone serve` decides this"),
        ({"drain_timeout_s": 1}, {}, "gateway: drain_timeout_s: `tritone serve` decides this"),
        ({"port": 1}, {}, "gateway: port is given as gateway_port"),
    ],
)
def test_what_has_another_place_is_refused(table: dict[str, Any], environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        gateway_config(Config(gateway=table), environment)
