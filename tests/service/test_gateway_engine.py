"""What becomes of the gateway's clients when the engine behind a real Triton is full, or dies; and under which name."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from .gateway import CHAT, Gateway, begin, beside, complete, send
from .serving import Server, serve, wait_until

pytestmark = pytest.mark.service

NAME = "org/модель 7B"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    options = ("--name", NAME, "--set", "max_streams=2", "--set", "tokens_per_second=50", "--set", "heartbeat_s=0.2")
    with serve(tmp_path_factory.mktemp("engine"), toy_model, *options) as running:
        yield running


@pytest.fixture
def front(server: Server) -> Gateway:
    return beside(server)


def test_b64_a_name_that_no_folder_can_have(front: Gateway, server: Server) -> None:
    (listed,) = send(front, "/v1/models").json["data"]
    assert listed["id"] == NAME
    assert complete(front, model=NAME, max_tokens=2).json["model"] == NAME
    (line,) = (line for line in server.out.read_text().splitlines() if line.startswith("curl") and "/v1/" in line)
    assert json.dumps(NAME) in line
    assert complete(front, model="toy").status == 404


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_engine_refuses_and_harms_nobody(front: Gateway, server: Server, stream: bool) -> None:
    wait_until(lambda: not server.run.live_streams(), 5)
    with closing(begin(front, True, model=NAME)) as one, closing(begin(front, True, model=NAME)) as other:
        for running in (one, other):
            assert running.recv(12) == b"HTTP/1.1 200"
        reply = complete(front, model=NAME, stream=stream)
        assert (reply.status, reply.error["code"], reply.headers["retry-after"]) == (429, "rate_limit_exceeded", "1")
        for running in (one, other):
            assert b"data: " in running.recv(65536)
    wait_until(lambda: complete(front, model=NAME, max_tokens=1).status == 200, 5)


@pytest.mark.parametrize("stage", ["preprocess", "engine", "postprocess"])
def test_b56_a_stage_that_is_killed_breaks_its_streams_off_and_comes_back(
    front: Gateway, server: Server, stage: str
) -> None:
    chatting = {"model": NAME, "messages": [{"role": "user", "content": "ab"}], "ignore_eos": True, "stream": True}
    wait_until(lambda: not server.run.live_streams(), 5)
    with ThreadPoolExecutor(2) as threads:
        stream = threads.submit(send, front, CHAT, chatting)
        whole = threads.submit(complete, front, "ab", model=NAME, ignore_eos=True)
        wait_until(lambda: server.run.live_streams() == 2, 5)
        time.sleep(0.3)
        os.kill(server.stage_pid(stage), signal.SIGKILL)
        *events, last = stream.result(10).events
        unsent = whole.result(10)
    assert any(choice["delta"].get("content") for event in events for choice in event["choices"])
    assert (last["error"]["type"], "[DONE]" in events) == ("server_error", False)
    assert (unsent.status, unsent.error["type"]) in [(500, "server_error"), (503, "server_error")]
    assert complete(front, model=NAME).status == 503
    wait_until(lambda: not front.is_ready(), 2)  # Triton itself would stay ready: the launcher sees what has died
    wait_until(front.is_ready, 30)
    assert beside(server).pid == front.pid
    assert complete(front, model=NAME, max_tokens=3).json["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("stream", [False, True])
def test_max_completion_tokens_goes_before_max_tokens(front: Gateway, stream: bool) -> None:
    body = {"model": NAME, "messages": [{"role": "user", "content": "Hi"}], "ignore_eos": True, "stream": stream}
    with_usage = {"stream_options": {"include_usage": True}} if stream else {}
    limits = {"max_tokens": 9, "max_completion_tokens": 3}
    reply = send(front, CHAT, {**body, **limits, **with_usage})
    usage = reply.events[-2]["usage"] if stream else reply.json["usage"]
    assert usage["completion_tokens"] == 3
