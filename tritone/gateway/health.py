"""Whether the gateway lives, and whether it should get work. Runs in the gateway, one state in each worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse

from tritone import __version__

LIVE, READY, HEALTH, VERSION = "/health/live", "/health/ready", "/health", "/version"
OPEN_PATHS = frozenset({LIVE, READY, HEALTH, VERSION})
"""What is answered without a key: nothing secret is said there."""

TRITON_TIMEOUT_S = 2.0

_UNAVAILABLE: dict[int | str, dict[str, Any]] = {503: {"description": "Not ready."}}


class GatewayState:
    """Starting, ready or draining, and how many requests are being answered."""

    def __init__(self) -> None:
        self._state = "starting"
        self.in_flight = 0

    def __str__(self) -> str:
        return self._state

    @property
    def is_draining(self) -> bool:
        """Whether no new work is taken."""
        return self._state == "draining"

    def start(self) -> None:
        """Take work from now on."""
        if not self.is_draining:
            self._state = "ready"

    def drain(self) -> None:
        """Finish what there is and take nothing new."""
        self._state = "draining"


def health_router(state: GatewayState, is_triton_ready: Callable[[], Awaitable[bool]]) -> APIRouter:
    """GET and HEAD of the paths above; `is_triton_ready` is asked each time."""

    async def live() -> JSONResponse:
        return JSONResponse({"status": "live"})

    async def ready() -> JSONResponse:
        reason = str(state)
        if reason == "ready" and not await _in_time(is_triton_ready()):
            reason = "the model server is not ready"
        return JSONResponse({"status": reason}, 200 if reason == "ready" else 503)

    async def version() -> JSONResponse:
        return JSONResponse({"version": __version__})

    router = APIRouter(tags=["health"])
    for path, answer in {LIVE: live, READY: ready, HEALTH: ready, VERSION: version}.items():
        responses = _UNAVAILABLE if answer is ready else {}
        router.add_api_route(path, answer, response_class=JSONResponse, response_model=None, responses=responses)
        router.add_api_route(path, answer, methods=["HEAD"], include_in_schema=False, response_model=None)
    return router


async def _in_time(asked: Awaitable[bool]) -> bool:
    try:
        return await asyncio.wait_for(asked, TRITON_TIMEOUT_S)
    except asyncio.TimeoutError:
        return False
