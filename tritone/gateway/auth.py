"""Who may call: whoever has an API key. Runs in the gateway. A key is never logged and never in an answer."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tritone.gateway.api_keys import ApiKeys
from tritone.gateway.asgi_reply import send_error
from tritone.gateway.health import OPEN_PATHS
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.openai_error import OpenAIError

CHALLENGE = {"www-authenticate": 'Bearer realm="tritone"'}


class RequireApiKey:
    """ASGI middleware: answers 401 to a request without a known key, but for the paths that are open."""

    def __init__(self, app: ASGIApp, keys: ApiKeys, metrics: GatewayMetrics) -> None:
        self._app = app
        self._keys = keys
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is allowed."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            scheme, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not self._keys.has(key.strip()):
                self._metrics.rejected("unauthorized")
                missing = "An API key is needed, as in `Authorization: Bearer KEY`."
                message = "The API key is not known." if key else missing
                return await send_error(send, OpenAIError(401, message), CHALLENGE)
        await self._app(scope, receive, send)
