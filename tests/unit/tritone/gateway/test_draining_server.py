"""When a server is over, asked as uvicorn asks it; it never listens."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest
import uvicorn

from tests.unit.tritone.gateway.asgi import echo
from tests.unit.tritone.gateway.fake_clock import Clock
from tritone.gateway import draining_server
from tritone.gateway.draining_server import DrainingServer
from tritone.gateway.health import GatewayState


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(draining_server, "time", clock)
    return clock


@pytest.fixture
def state() -> GatewayState:
    return GatewayState()


@pytest.fixture
def server(clock: Clock, state: GatewayState) -> DrainingServer:
    return DrainingServer(uvicorn.Config(echo, log_config=None), state, drain_timeout_s=30)


@pytest.fixture
def is_over(server: DrainingServer) -> Callable[[], bool]:
    return lambda: asyncio.run(server.on_tick(1))


def test_goes_on_without_a_signal(state: GatewayState, is_over: Callable[[], bool]) -> None:
    assert not is_over()
    assert not state.is_draining


def test_an_idle_one_is_over_at_the_first_signal(server: DrainingServer, is_over: Callable[[], bool]) -> None:
    server.handle_exit(signal.SIGTERM, None)
    assert is_over()


def test_goes_on_listening_until_the_last_answer_is_out(
    server: DrainingServer, state: GatewayState, clock: Clock, is_over: Callable[[], bool]
) -> None:
    state.in_flight = 2
    server.handle_exit(signal.SIGTERM, None)
    clock.now_s = 129.9
    assert state.is_draining
    assert not is_over()
    state.in_flight = 0
    assert is_over()


def test_is_over_when_the_time_is_up(
    server: DrainingServer, state: GatewayState, clock: Clock, is_over: Callable[[], bool]
) -> None:
    state.in_flight = 1
    server.handle_exit(signal.SIGTERM, None)
    clock.now_s = 130.0
    assert is_over()


def test_is_over_at_the_second_signal(server: DrainingServer, state: GatewayState, is_over: Callable[[], bool]) -> None:
    state.in_flight = 1
    server.handle_exit(signal.SIGTERM, None)
    server.handle_exit(signal.SIGINT, None)
    assert server.force_exit
    assert is_over()
