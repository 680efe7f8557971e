from __future__ import annotations

import asyncio
import json

import pytest
from fastapi import FastAPI

from tests.unit.tritone.gateway.asgi import call, scope
from tritone import __version__
from tritone.gateway import health
from tritone.gateway.health import GatewayState, health_router


def app_with(state: GatewayState, is_triton_ready: bool | None = True) -> FastAPI:
    async def ask() -> bool:
        if is_triton_ready is None:
            await asyncio.Event().wait()
        return bool(is_triton_ready)

    app = FastAPI()
    app.include_router(health_router(state, ask))
    return app


def state_after(*steps: str) -> GatewayState:
    state = GatewayState()
    for step in steps:
        getattr(state, step)()
    return state


@pytest.mark.parametrize(
    ("steps", "is_triton_ready", "status", "said"),
    [
        ((), True, 503, "starting"),
        (("start",), True, 200, "ready"),
        (("start",), False, 503, "the model server is not ready"),
        (("start", "drain"), True, 503, "draining"),
        (("drain", "start"), True, 503, "draining"),
    ],
)
@pytest.mark.parametrize("path", ["/health", "/health/ready"])
def test_ready(steps: tuple[str, ...], is_triton_ready: bool, status: int, said: str, path: str) -> None:
    answer = call(app_with(state_after(*steps), is_triton_ready), scope("GET", path))
    assert (answer.status, json.loads(answer.body)) == (status, {"status": said})


def test_a_triton_that_does_not_answer_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "TRITON_TIMEOUT_S", 0.01)
    assert call(app_with(state_after("start"), None), scope("GET", "/health")).status == 503


@pytest.mark.parametrize("steps", [(), ("start",), ("start", "drain")])
def test_live_as_long_as_it_answers(steps: tuple[str, ...]) -> None:
    assert call(app_with(state_after(*steps), False), scope("GET", "/health/live")).status == 200


def test_version() -> None:
    assert json.loads(call(app_with(GatewayState()), scope("GET", "/version")).body) == {"version": __version__}


@pytest.mark.parametrize("path", sorted(health.OPEN_PATHS))
def test_answers_head(path: str) -> None:
    assert call(app_with(state_after("start")), scope("HEAD", path)).status == 200


def test_is_in_the_openapi_document_once() -> None:
    assert {path: list(methods) for path, methods in app_with(GatewayState()).openapi()["paths"].items()} == {
        path: ["get"] for path in health.OPEN_PATHS
    }
