"""A connection's limits, with bytes put into the protocol by hand and a transport that keeps what is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.unit.tritone.gateway.asgi import echo
from tritone.gateway.http_protocol import HttpProtocol, limited_protocol
from tritone.gateway.settings import GatewayConfig

REQUEST = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi"


class Wire(asyncio.Transport):
    """A transport without a wire."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False
        self.was_hung_up = False  # by us, before the client went

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def connected() -> tuple[HttpProtocol, Wire]:
    settings = GatewayConfig(header_timeout_s=0.05, max_header_bytes=1024)
    config = uvicorn.Config(echo, http=limited_protocol(settings), ws="none", lifespan="off", log_config=None)
    config.load()
    protocol = limited_protocol(settings)(config=config, server_state=ServerState(), app_state={})
    wire = Wire()
    protocol.connection_made(wire)
    return protocol, wire


Say = Callable[..., Wire]


@pytest.fixture
def say() -> Say:
    async def run(parts: tuple[bytes, ...], wait_s: float) -> Wire:
        protocol, wire = await connected()
        for part in parts:
            protocol.data_received(part)
            await asyncio.sleep(0.02)
        await asyncio.sleep(wait_s)
        wire.was_hung_up = wire.is_closed
        protocol.connection_lost(None)
        return wire

    return lambda *parts, wait_s=0.0: asyncio.run(run(parts, wait_s))


def test_a_head_in_time_is_answered_and_the_connection_kept(say: Say) -> None:
    wire = say(REQUEST[:9], REQUEST[9:], wait_s=0.08)
    assert wire.written.startswith(b"HTTP/1.1 200 OK\r\n")
    assert not wire.was_hung_up


def test_a_client_that_says_nothing_is_hung_up_on(say: Say) -> None:
    wire = say(wait_s=0.08)
    assert (wire.written, wire.was_hung_up) == (b"", True)


@pytest.mark.parametrize("before", [b"", REQUEST])
def test_a_head_that_takes_too_long_is_408(say: Say, before: bytes) -> None:
    wire = say(before, b"GET / HT", wait_s=0.08) if before else say(b"GET / HT", wait_s=0.08)
    assert b"HTTP/1.1 408 Request Timeout\r\n" in wire.written
    assert b'"code": "timeout"' in wire.written
    assert wire.was_hung_up


@pytest.mark.parametrize(
    "parts",
    [
        (b"GET / HTTP/1.1\r\nx-request-id: " + b"a" * 2000 + b"\r\n\r\n",),
        (b"GET / HTTP/1.1\r\nx-request-id: ", b"a" * 2000),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 600,),
    ],
)
def test_a_head_that_is_too_long_is_431(say: Say, parts: tuple[bytes, ...]) -> None:
    wire = say(*parts)
    assert wire.written.count(b"HTTP/1.1") == 1
    assert b"HTTP/1.1 431 Request Header Fields Too Large\r\n" in wire.written
    assert b"longer than 1024 bytes" in wire.written
    assert wire.was_hung_up


def test_what_is_not_http_is_400_in_json(say: Say) -> None:
    wire = say(b"\x16\x03\x01 hello\r\n\r\n")
    assert b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n" in wire.written


def test_a_long_body_is_not_a_long_head(say: Say) -> None:
    wire = say(b"POST / HTTP/1.1\r\ncontent-length: 5000\r\n\r\n", b"a" * 5000)
    assert b"HTTP/1.1 200 OK" in wire.written
