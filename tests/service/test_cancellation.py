"""A client that leaves frees its slot: mid-stream and queued, over HTTP and gRPC, by itself and by request id.

Slots are seen from outside: rows of the stream table in the run folder, and whether the next request gets a slot.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .grpc_client import Stream, text_of
from .leaving import LEAVERS, Leaver, leave_grpc, leave_http
from .serving import HOST, Server, generate, serve, wait_until

pytestmark = pytest.mark.service

HEARTBEAT_S = 0.3
FREED_WITHIN_S = 1.5  # the promise is `ack_timeout_s`, 5; it takes a heartbeat and half a second


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    options = ("--set", "tokens_per_second=50", "--set", f"heartbeat_s={HEARTBEAT_S}")
    with serve(tmp_path_factory.mktemp("cancel"), toy_model, "--max-num-seqs", "1", *options) as running:
        yield running


def endless(letter: str) -> dict[str, object]:
    return {"text_input": letter * 8, "ignore_eos": True}


@pytest.mark.parametrize("start", LEAVERS)
def test_client_that_leaves_mid_stream_frees_its_slot(server: Server, start: Leaver) -> None:
    leave = start(server, "toy", endless("a"))
    wait_until(lambda: server.run.live_streams() == 1, 5)
    time.sleep(0.3)
    leave()
    left_s = time.monotonic()
    assert generate(server, "toy", text_input="next")["text_output"] == "next"
    assert time.monotonic() - left_s < FREED_WITHIN_S
    wait_until(lambda: server.run.live_streams() == 0, FREED_WITHIN_S)


@pytest.mark.parametrize("start", LEAVERS)
def test_client_that_leaves_the_queue_never_reaches_the_engine(server: Server, start: Leaver) -> None:
    leave_running = leave_grpc(server, "toy", endless("a"))
    wait_until(lambda: server.run.live_streams() == 1, 5)
    leave_queued = start(server, "toy", endless("a"))
    wait_until(lambda: server.run.live_streams() == 2, 5)
    time.sleep(2 * HEARTBEAT_S)
    leave_queued()
    wait_until(lambda: server.run.live_streams() == 1, FREED_WITHIN_S)
    leave_running()
    wait_until(lambda: server.run.live_streams() == 0, FREED_WITHIN_S)


def test_stop_by_request_id_frees_the_slot_at_once_and_spares_the_others(server: Server) -> None:
    running = Stream(server.grpc, "toy", "mine", **endless("a"))
    next(iter(running))
    other = Stream(server.grpc, "toy", "other", text_input="other")
    wait_until(lambda: server.run.live_streams() == 2, 5)
    stopped_s = time.monotonic()
    assert list(Stream(server.grpc, "toy_engine", "mine", stop=True)) == []
    assert text_of(list(other)) == "other"
    assert time.monotonic() - stopped_s < 1.0
    assert list(running)[-1]["finish_reason"] == "abort"
    wait_until(lambda: server.run.live_streams() == 0, 5)


def test_whole_answer_over_http_runs_to_its_end_when_the_client_leaves(server: Server) -> None:
    """Triton does not notice (triton-inference-server/server#7077); nobody else may suffer from it."""
    connection = http.client.HTTPConnection(HOST, server.http_port, timeout=30)
    body = {**endless("w"), "stream": False, "max_tokens": 50}
    connection.request("POST", "/v2/models/toy/generate", json.dumps(body))
    wait_until(lambda: server.run.live_streams() == 1, 5)
    connection.close()
    assert generate(server, "toy", text_input="next")["text_output"] == "next"
    wait_until(lambda: server.run.live_streams() == 0, 5)


def test_b50_connections_that_come_and_go_leave_nothing(server: Server) -> None:
    for number in range(51):
        LEAVERS[number % 3](server, "toy", endless("a"))()
    wait_until(lambda: server.run.live_streams() == 0, FREED_WITHIN_S + 5)
    assert generate(server, "toy", text_input="still here")["text_output"] == "still here"


def test_triton_holds_no_request_of_a_client_that_left(tmp_path: Path, toy_model: Path) -> None:
    """Triton says at its end how many requests it still holds."""
    with serve(tmp_path, toy_model, "--set", "tokens_per_second=200") as running:
        for start in [leave_http, leave_grpc] * 5:
            leave = start(running, "toy", endless("a"))
            wait_until(lambda: running.run.live_streams() == 1, 5)
            time.sleep(0.1)
            leave()
            wait_until(lambda: running.run.live_streams() == 0, 5)
    assert "Found 0 model versions that have in-flight inferences" in running.log.read_text()
