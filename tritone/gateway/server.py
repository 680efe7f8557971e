"""A whole gateway: checked, listening, answering. Runs in the process of `tritone gateway`, or the launcher's child."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import ssl

from tritone.errors import TritoneError
from tritone.gateway.api_keys import VARIABLE, load_keys
from tritone.gateway.settings import GatewayConfig
from tritone.ports import check_ports, in_url, reachable, resolved

logger = logging.getLogger(__name__)

_BACKLOG = 2048


class TlsError(TritoneError):
    """The certificate or its key cannot be used."""


def run(config: GatewayConfig) -> int:
    """Serve until told to stop. Returns the exit status: 1 when answers were cut off. Raises TritoneError."""
    check(config)
    _warn_if_open(config)
    with _listen(config.host, config.port) as listener:
        logger.info("the gateway listens on %s", url(config))
        if config.workers > 1:
            from tritone.gateway.worker_pool import serve
        else:
            from tritone.gateway.worker import serve
        return serve(config, listener)


def check(config: GatewayConfig) -> None:
    """Raise TritoneError for what can be seen to be wrong before anything is started."""
    load_keys(config.api_key_file, os.environ)
    if (config.tls_cert is None) != (config.tls_key is None):
        raise TlsError("tls_cert and tls_key go together: give both or none")
    if config.tls_cert and config.tls_key:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(config.tls_cert, config.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise TlsError(
                f"tls_cert {config.tls_cert}, tls_key {config.tls_key}: {error.strerror or error}"
            ) from error


def url(config: GatewayConfig) -> str:
    """Where this machine reaches the gateway."""
    scheme = "https" if config.tls_cert else "http"
    return f"{scheme}://{in_url(reachable(config.host))}:{config.port}"


def _warn_if_open(config: GatewayConfig) -> None:
    address = str(resolved(config.host, 0)[1][0]).partition("%")[0]
    if not ipaddress.ip_address(address).is_loopback and not load_keys(config.api_key_file, os.environ):
        logger.warning("whoever reaches %s can use the gateway: no API keys were given (%s)", address, VARIABLE)


def _listen(host: str, port: int) -> socket.socket:
    check_ports({"--port": (host, port)})
    family, address = resolved(host, port)
    return socket.create_server(address, family=family, backlog=_BACKLOG)
