"""A gateway in front of a test's Triton, and a client so plain that it sees every byte."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

from tritone import run_dir

from .serving import HOST, Server, free_ports, wait_until

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Gateway:
    """A gateway that answers; `log` has its stderr."""

    pid: int
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def memory(self) -> int:
        """Resident bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def is_ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/health/ready", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False


@dataclass(frozen=True)
class Reply:
    """A whole reply."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        return dict(self.json["error"])

    @property
    def events(self) -> list[Any]:
        """What the events of a stream hold: JSON, or the text "[DONE]"; each must be one line of data."""
        blocks = self.body.decode("ascii").split("\n\n")
        assert blocks.pop() == "", "the stream ends within an event"
        assert all(block.startswith(("data: ", ": ")) and "\n" not in block for block in blocks)
        datas = [block.removeprefix("data: ") for block in blocks if block.startswith("data: ")]
        return [data if data == "[DONE]" else json.loads(data) for data in datas]

    @property
    def choices(self) -> list[dict[str, Any]]:
        """The choices of all chunks of a stream that came to its end."""
        *chunks, done = self.events
        assert (self.status, done) == (200, "[DONE]"), self.body
        return [choice for chunk in chunks for choice in chunk["choices"]]


def beside(server: Server) -> Gateway:
    """The gateway that the launcher of `server` has started."""
    (pid,) = (process.pid for process in run_dir.processes_of(server.run.gateway))
    return Gateway(pid, server.gateway_port, server.log)


def start(folder: Path, server: Server, *options: str) -> tuple[Gateway, subprocess.Popen[bytes]]:
    """One more gateway for the Triton of `server`, and its process; it need not answer yet."""
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "tritone", "gateway", "--triton", server.http, "--port", str(port), *options]
    log = folder / "gateway.txt"
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr)
    return Gateway(process.pid, port, log), process


@contextmanager
def gateway(folder: Path, server: Server, *options: str) -> Iterator[Gateway]:
    """One more gateway for the Triton of `server`, ready; ended afterwards, and it must end well."""
    running, process = start(folder, server, *options)
    try:
        wait_until(lambda: running.is_ready() or process.poll() is not None, TIMEOUT_S)
        assert process.poll() is None, running.log.read_text()
        yield running
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0, running.log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in running.log.read_text()


def send(
    gateway: Gateway, path: str, body: Any = None, headers: Mapping[str, str] | None = None, method: str | None = None
) -> Reply:
    """The reply to one request; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    with closing(http.client.HTTPConnection(HOST, gateway.port, timeout=TIMEOUT_S)) as connection:
        connection.request(method or ("GET" if data is None else "POST"), path, data, dict(headers or {}))
        reply = connection.getresponse()
        names = {name.lower(): value for name, value in reply.getheaders()}
        return Reply(reply.status, names, reply.read())


def begin(gateway: Gateway, stream: bool, headers: Mapping[str, str] | None = None, **fields: Any) -> socket.socket:
    """Ask for a completion without end; nothing of it is read."""
    body = json.dumps({"model": "toy", "prompt": "ab", "ignore_eos": True, "stream": stream, **fields}).encode()
    lines = {"host": HOST, "content-length": len(body), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    connection = socket.create_connection((HOST, gateway.port), timeout=10)
    connection.sendall(f"POST {COMPLETIONS} HTTP/1.1\r\n{head}\r\n".encode() + body)
    return connection


def complete(gateway: Gateway, prompt: Any = "Hi", **fields: Any) -> Reply:
    """The reply to a completion request."""
    return send(gateway, COMPLETIONS, {"model": "toy", "prompt": prompt, **fields})


def chat(gateway: Gateway, *messages: Any, **fields: Any) -> Reply:
    """The reply to a chat request; a message that is text is the user's."""
    sent = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
    return send(gateway, CHAT, {"model": "toy", "messages": sent, **fields})


def prompt_of(gateway: Gateway, *messages: Any, **fields: Any) -> str:
    """The prompt that messages become, read back from its ids."""
    reply = send(gateway, "/tokenize", {"model": "toy", "messages": messages, **fields})
    return str(send(gateway, "/detokenize", {"model": "toy", "tokens": reply.json["tokens"]}).json["prompt"])


def text_of(reply: Reply, index: int = 0) -> str:
    """The text of one choice, whether it came whole or in chunks."""
    if not reply.headers["content-type"].startswith("text/event-stream"):
        choice = reply.json["choices"][index]
        return str(choice["text"] if "text" in choice else choice["message"]["content"])
    mine = [choice for choice in reply.choices if choice["index"] == index]
    return "".join(one["text"] if "text" in one else one["delta"].get("content", "") for one in mine)


def refusal(reply: Reply, status: int = 400) -> tuple[str | None, str]:
    """The field and the message of an error that came before any event."""
    assert (reply.status, reply.headers["content-type"]) == (status, "application/json"), reply.body
    return reply.error["param"], reply.error["message"]
