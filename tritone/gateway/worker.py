"""One process that answers on a listening socket: the app in its server. Runs in each gateway worker."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket

import uvicorn

from tritone.gateway.access_log import failure, line_writer
from tritone.gateway.api_keys import load_keys
from tritone.gateway.app import make_app
from tritone.gateway.draining_server import DrainingServer
from tritone.gateway.health import GatewayState
from tritone.gateway.http_protocol import limited_protocol
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.settings import GatewayConfig


def serve(config: GatewayConfig, listener: socket.socket) -> int:
    """Answer until told to stop. Returns the exit status: 1 when answers were cut off. Raises TritoneError."""
    _allow_many_connections()
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_without_traceback)
    state = GatewayState()
    keys = load_keys(config.api_key_file, os.environ)
    app = make_app(config, keys, line_writer(config), state, GatewayMetrics())
    server = DrainingServer(_uvicorn_config(config, app), state, config.drain_timeout_s)
    server.run([listener])
    return 1 if server.num_cut_off else 0


def _uvicorn_config(config: GatewayConfig, app: object) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=limited_protocol(config),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=config.idle_timeout_s,  # type: ignore[arg-type]  # seconds, whole or not
        ssl_certfile=config.tls_cert,
        ssl_keyfile=config.tls_key,
    )


def _allow_many_connections() -> None:
    """Two sockets for each answer are soon more than the 1,024 files many systems begin with."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _without_traceback(record: logging.LogRecord) -> bool:
    """Keep the text of an error that uvicorn has caught out of the log: it may hold what a client has sent.

    An answer that was cut off is no error: DrainingServer counts them.
    """
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        return False
    if record.exc_info and record.exc_info[1]:
        record.msg, record.args = "%s: %s", (str(record.msg).strip(), failure(record.exc_info[1]))
        record.exc_info = None
    return True
