"""Clients of Triton that start a stream and leave it, each in its own way."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

from .grpc_client import Stream
from .serving import HOST, Server

Leaver = Callable[[Server, str, Mapping[str, Any]], Callable[[], None]]


def leave_http(server: Server, model: str, inputs: Mapping[str, Any]) -> Callable[[], None]:
    """Start a stream over HTTP; what is returned closes the connection."""
    connection = http.client.HTTPConnection(HOST, server.http_port, timeout=30)
    connection.request("POST", f"/v2/models/{model}/generate_stream", json.dumps(inputs))
    return connection.close


def reset_http(server: Server, model: str, inputs: Mapping[str, Any]) -> Callable[[], None]:
    """The same, but what is returned resets the connection."""
    connection = http.client.HTTPConnection(HOST, server.http_port, timeout=30)
    connection.request("POST", f"/v2/models/{model}/generate_stream", json.dumps(inputs))
    assert connection.sock is not None
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return connection.sock.close


def leave_grpc(server: Server, model: str, inputs: Mapping[str, Any]) -> Callable[[], None]:
    """Start a stream over gRPC; what is returned cancels it."""
    return Stream(server.grpc, model, **inputs).cancel


LEAVERS = [leave_http, reset_http, leave_grpc]
