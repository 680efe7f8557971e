"""A server that says the same to everyone, for tests of clients: streams of an OpenAI server, whole or broken."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .serving import HOST

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TEXT = b'data: {"choices":[{"text":"a","finish_reason":null}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"message":"engine gone","type":"server_error"}}\n\n'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


END = chunk(b"")


@contextmanager
def replying(reply: bytes, held_s: float = 0.0) -> Iterator[str]:
    """The address of a server that sends the same bytes to everyone and hangs up, after `held_s`."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            headers = b""
            while not headers.endswith(b"\r\n\r\n"):
                headers += self.rfile.readline()
            length = next(line for line in headers.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            self.rfile.read(int(length.partition(b":")[2]))
            self.wfile.write(reply)
            self.wfile.flush()
            time.sleep(held_s)

    with socketserver.TCPServer((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
