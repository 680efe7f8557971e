"""`tritone gateway` with settings of its own, in front of a Triton that runs elsewhere."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from .gateway import COMPLETIONS, Gateway, Reply, begin, complete, gateway, send
from .serving import HOST, Server, free_ports, serve, wait_until

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    options = ("--no-gateway", "--max-num-seqs", "1", "--set", "tokens_per_second=500", "--set", "heartbeat_s=0.3")
    with serve(tmp_path_factory.mktemp("elsewhere"), toy_model, *options) as running:
        yield running


def test_b55_bodies_at_the_limit(server: Server, tmp_path: Path) -> None:
    limit = 5000

    def sized(num_bytes: int) -> bytes:
        body = json.dumps({"model": "toy", "prompt": "a", "user": ""}).encode()
        return body[:-2] + b"u" * (num_bytes - len(body)) + body[-2:]

    with gateway(tmp_path, server, "--max-body-bytes", str(limit)) as front:
        assert [send(front, COMPLETIONS, sized(size)).status for size in (limit - 1, limit, limit + 1)] == [
            200,
            200,
            413,
        ]
        assert [chunked(front, sized(size)).status for size in (limit, limit + 1)] == [200, 413]
        assert str(limit) in chunked(front, sized(10 * limit)).error["message"]
        assert complete(front).status == 200


def chunked(front: Gateway, body: bytes) -> Reply:
    with closing(http.client.HTTPConnection(HOST, front.port, timeout=10)) as connection:
        parts = (body[start : start + 1000] for start in range(0, len(body), 1000))
        connection.request("POST", COMPLETIONS, parts, encode_chunked=True, headers={"transfer-encoding": "chunked"})
        reply = connection.getresponse()
        return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())


def test_b63_request_log_is_lines_of_json_in_files_of_bounded_size(server: Server, tmp_path: Path) -> None:
    secret, fake = "correct horse battery", "\n[ERROR] fake\x1b[31m"
    options = ("--log-file", str(tmp_path / "requests.log"), "--log-max-bytes", "4096", "--log-max-files", "3")
    with gateway(tmp_path, server, *options) as front:
        for _ in range(20):
            complete(front, secret)
            send(front, COMPLETIONS, {"model": fake, "prompt": secret})
        wait_until(lambda: len(list(tmp_path.glob("requests.log*"))) == 3, 5)
        text = "".join(path.read_text() for path in tmp_path.glob("requests.log*"))
    assert max(path.stat().st_size for path in tmp_path.glob("requests.log*")) <= 4096
    lines = [json.loads(line) for line in text.splitlines()]
    assert {line["status"] for line in lines} == {200, 404}
    assert secret not in text
    assert "\x1b" not in text
    assert secret not in front.log.read_text()


def test_b63_a_log_that_cannot_be_written_is_told_at_start(tmp_path: Path) -> None:
    log = tmp_path / "no" / "requests.log"
    command = [sys.executable, "-m", "tritone", "gateway", "--triton", f"{HOST}:1", "--log-file", str(log)]
    ended = subprocess.run([*command, "--port", str(free_ports(1)[0])], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1
    assert f"log_file: {log} cannot be written: No such file or directory" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_a_stream_with_nothing_to_say_gets_comments(server: Server, tmp_path: Path) -> None:
    """One that waits for a slot, too: a proxy must not take it for dead."""
    with gateway(tmp_path, server, "--keep-alive-s", "0.2") as front, closing(begin(front, True)) as running:
        wait_until(lambda: server.run.live_streams() == 1, 5)
        with closing(begin(front, True, max_tokens=2)) as waiting:
            received = read_until(waiting, b": keep-alive\n\n", 2)
            assert b"data:" not in received
            running.close()
            assert b'"finish_reason":"length"' in read_until(waiting, b"[DONE]", 1)


def read_until(connection: socket.socket, words: bytes, count: int) -> bytes:
    """What comes until the words have come so often."""
    received = b""
    while received.count(words) < count:
        received += connection.recv(65536)
    return received


def test_answer_that_takes_too_long_is_a_504_and_frees_its_slot(server: Server, tmp_path: Path) -> None:
    with gateway(tmp_path, server, "--request-timeout-s", "0.5") as hasty:
        whole = complete(hasty, "ab", ignore_eos=True)
        assert (whole.status, whole.error["code"]) == (504, "timeout")
        *chunks, last = complete(hasty, "ab", ignore_eos=True, stream=True).events
        assert (len(chunks) > 1, last["error"]["code"]) == (True, "timeout")
        wait_until(lambda: server.run.live_streams() == 0, 2)
