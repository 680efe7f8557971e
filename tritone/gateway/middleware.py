"""Everything a request passes before it reaches a route, in its order. Runs in the gateway, in each worker."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from tritone.gateway.access_log import AccessLog, LineWriter
from tritone.gateway.api_keys import ApiKeys
from tritone.gateway.auth import RequireApiKey
from tritone.gateway.health import GatewayState
from tritone.gateway.limits import Admission, BodyLimit
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.request_id import HEADER, RequestIds
from tritone.gateway.settings import GatewayConfig


def guarded(
    app: ASGIApp, config: GatewayConfig, state: GatewayState, metrics: GatewayMetrics, keys: ApiKeys, write: LineWriter
) -> ASGIApp:
    """`app` behind, from the outside in: log, request id, CORS, keys, admission, body."""
    app = BodyLimit(app, metrics, config.max_body_bytes, config.body_timeout_s)
    app = Admission(app, state, metrics, config.concurrency_per_worker, config.overload_status)
    if keys:
        app = RequireApiKey(app, keys, metrics)
    if config.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=config.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=[HEADER, "retry-after"],
        )
    return AccessLog(RequestIds(app), write, metrics)
