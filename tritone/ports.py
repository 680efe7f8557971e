"""Checks that the ports to serve on are free, before anything is fetched or loaded. Runs in our process."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from typing import Any

import psutil

from tritone.errors import TritoneError


class PortError(TritoneError):
    """The server cannot listen where it was told to."""


def check_ports(addresses: Mapping[str, tuple[str, int]]) -> None:
    """Raise PortError unless every host and port of `addresses` (by option) can be bound."""
    for option, (host, port) in addresses.items():
        twin = next((other for other in addresses if addresses[other][1] == port and other != option), None)
        if twin:
            raise PortError(f"{option} and {twin} are both {port}: give each its own port")
        _check_port(host, option, port)


def reachable(host: str) -> str:
    """The address at which this machine reaches a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def numeric(host: str) -> str:
    """The address of `host`. Triton's HTTP server takes no names. Raises PortError for a name that is not known."""
    return str(resolved(host, 0)[1][0])


def in_url(address: str) -> str:
    """An address as it stands before a port: IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


def resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """The family and the socket address of `host`. Raises PortError for a name that is not known."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise PortError(f"--host {host}: {error.strerror}") from error
    return family, address


def _check_port(host: str, option: str, port: int) -> None:
    family, address = resolved(host, port)
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: a port just left is free
        try:
            probe.bind(address)
        except PermissionError as error:
            raise PortError(f"{option} {port}: only root may listen there; choose a port above 1023") from error
        except OSError as error:
            raise PortError(_explain(host, option, port, error)) from error


def _explain(host: str, option: str, port: int, error: OSError) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"--host {host}: {error.strerror}"
    return f"{option} {port} is in use{_owner(port)}: stop it, or choose another port"


def _owner(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        pass  # other users' processes may not be looked at
    return ""
