"""The gateway as one ASGI application: the routes, and the layers every request passes. Runs in each gateway worker."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from tritone import __version__
from tritone.gateway.access_log import LineWriter
from tritone.gateway.api_keys import ApiKeys
from tritone.gateway.ensemble_client import EnsembleClient, EnsembleError
from tritone.gateway.health import GatewayState, health_router
from tritone.gateway.metrics import GatewayMetrics, metrics_router
from tritone.gateway.middleware import guarded
from tritone.gateway.openai_error import OpenAIError, internal_error, unavailable
from tritone.gateway.request_record import record_of
from tritone.gateway.routes import Routes
from tritone.gateway.settings import GatewayConfig

logger = logging.getLogger(__name__)

MESSAGES = {404: "There is nothing at this path.", 405: "This path does not take this method."}


def make_app(
    config: GatewayConfig, keys: ApiKeys, write: LineWriter, state: GatewayState, metrics: GatewayMetrics
) -> ASGIApp:
    """The whole application; `write` takes the lines of the access log. Its lifespan opens and closes what it needs."""
    return guarded(_routed(config, state, metrics), config, state, metrics, keys, write)


def _routed(config: GatewayConfig, state: GatewayState, metrics: GatewayMetrics) -> FastAPI:
    client = EnsembleClient(config.triton_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        client.open()
        state.start()
        yield
        await client.close()

    app = FastAPI(title="Tritone", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.include_router(Routes(client, metrics, config).router())
    app.include_router(health_router(state, client.is_ready))
    if config.metrics:
        app.include_router(metrics_router(metrics, lambda: client.metrics(config.triton_metrics_url)))
    for kind in (OpenAIError, EnsembleError, HTTPException, Exception):
        app.add_exception_handler(kind, _as_answer)
    return app


async def _as_answer(request: Request, error: Exception) -> JSONResponse:
    public = _public(error, record_of(request.scope).id)
    headers = {"retry-after": "1"} if public.status in (429, 503) else None
    return JSONResponse(public.body(), public.status, headers)


def _public(error: Exception, request_id: str) -> OpenAIError:
    if isinstance(error, OpenAIError):
        return error
    if isinstance(error, HTTPException):
        return OpenAIError(error.status_code, MESSAGES.get(error.status_code, "The request was refused."))
    if isinstance(error, EnsembleError):
        logger.warning("request %s: %s", request_id, error.message)
        if error.status == 503:
            return unavailable()
    return internal_error(request_id)
