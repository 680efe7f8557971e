"""A client that leaves the gateway frees the engine's slot at once: mid-stream and queued, streaming and not.

Slots are seen from outside, as rows of the stream table in the run folder of the server.
"""

from __future__ import annotations

import json
import socket
import statistics
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from .gateway import COMPLETIONS, Gateway, begin, beside, complete, send, text_of
from .serving import Server, serve, wait_until

pytestmark = pytest.mark.service

SLOTS = 4
TRIALS = 9
FREED_WITHIN_S = 0.3  # the promise is 0.1 s on a quiet machine


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    options = ("--max-num-seqs", str(SLOTS), "--set", "tokens_per_second=500")
    with serve(tmp_path_factory.mktemp("leaving"), toy_model, *options) as running:
        yield running


@pytest.fixture(scope="module")
def front(server: Server) -> Gateway:
    return beside(server)


def reset(connection: socket.socket) -> None:
    """Leave with RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def wait_for_streams(server: Server, count: int) -> float:
    """When there were so many."""
    deadline_s = time.monotonic() + 10
    while server.run.live_streams() != count:
        assert time.monotonic() < deadline_s, server.run.live_streams()
        time.sleep(0.001)
    return time.monotonic()


def time_to_free(server: Server, leaving: socket.socket, left: int) -> float:
    """Seconds from leaving to `left` rows."""
    left_s = time.monotonic()
    leaving.close()
    return wait_for_streams(server, left) - left_s


@pytest.mark.parametrize("stream", [True, False])
def test_slot_is_free_soon_after_a_client_left_mid_answer(server: Server, front: Gateway, stream: bool) -> None:
    times = []
    for _ in range(TRIALS):
        connection = begin(front, stream)
        wait_for_streams(server, 1)
        time.sleep(0.1)
        times.append(time_to_free(server, connection, 0))
    check(times, f"mid-answer, stream={stream}")


@pytest.mark.parametrize("stream", [True, False])
def test_client_that_leaves_the_queue_is_soon_out_of_it(server: Server, front: Gateway, stream: bool) -> None:
    running = [begin(front, True) for _ in range(SLOTS)]
    wait_for_streams(server, SLOTS)
    times = []
    for _ in range(TRIALS):
        queued = begin(front, stream)
        wait_for_streams(server, SLOTS + 1)
        time.sleep(0.1)
        times.append(time_to_free(server, queued, SLOTS))
    for connection in running:
        connection.close()
    wait_for_streams(server, 0)
    check(times, f"queued, stream={stream}")


def check(times: list[float], what: str) -> None:
    print(f"{what}: freed after {1000 * statistics.median(times):.1f} ms (median of {len(times)})")  # noqa: T201
    assert statistics.median(times) < FREED_WITHIN_S


@pytest.mark.parametrize("stream", [True, False])
def test_all_choices_end_with_their_client(server: Server, front: Gateway, stream: bool) -> None:
    connection = begin(front, stream, n=3, prompt=["ab", "cd"])
    wait_for_streams(server, 6)
    assert time_to_free(server, connection, 0) < 1


def test_one_refused_choice_frees_the_others(server: Server, front: Gateway) -> None:
    reply = complete(front, ["a" * 8, "x" * 70_000], ignore_eos=True)
    assert (reply.status, reply.error["param"]) == (400, "prompt")
    wait_until(lambda: server.run.live_streams() == 0, 2)


def test_b45_leaving_ends_no_other_request_of_the_same_id(server: Server, front: Gateway) -> None:
    with ThreadPoolExecutor(1) as pool:
        body = {"model": "toy", "prompt": "b" * 200, "stream": True}
        beside = pool.submit(send, front, COMPLETIONS, body, {"x-request-id": "same"})
        wait_for_streams(server, 1)
        connection = begin(front, True, {"x-request-id": "same"})
        wait_for_streams(server, 2)
        connection.close()
        assert text_of(beside.result()) == "b" * 200
    wait_for_streams(server, 0)


def test_b50_clients_that_drop_again_and_again(server: Server, front: Gateway) -> None:
    for number in range(50):
        connection = begin(front, stream=number % 2 == 0)
        time.sleep(0.02 * (number % 4))
        reset(connection) if number % 3 else connection.close()
    wait_until(lambda: server.run.live_streams() == 0, 5)
    assert text_of(complete(front, "still here")) == "still here"
    assert len(front.log.read_text().splitlines()) < 200
    assert "Traceback" not in server.log.read_text()


def test_disconnects_are_counted(front: Gateway) -> None:
    before = disconnects(front)
    begin(front, stream=False).close()
    wait_until(lambda: disconnects(front) == before + 1, 5)


def disconnects(front: Gateway) -> float:
    name = 'tritone:disconnects_total{model_name="toy"} '
    lines = send(front, "/metrics").body.decode().splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def test_b66_slow_reader_holds_bounded_memory(server: Server, front: Gateway) -> None:
    """60,000 tokens for three clients that do not read."""
    complete(front, "warm")
    before = front.memory
    slow = [begin(front, True, max_tokens=60_000) for _ in range(3)]
    wait_for_streams(server, 3)
    started_s = time.monotonic()
    assert text_of(complete(front, "n" * 200, stream=True)) == "n" * 200
    assert time.monotonic() - started_s < 2
    time.sleep(2)
    assert front.memory - before < 32 * 2**20
    for connection in slow:
        connection.close()
    wait_until(lambda: server.run.live_streams() == 0, 5)


def test_b66_slow_reader_misses_nothing(server: Server, front: Gateway) -> None:
    """One that reads only when all is made, and more than fits into the sockets on its way."""
    always = {"include_usage": True, "continuous_usage_stats": True}
    with closing(
        begin(front, True, {"connection": "close"}, n=SLOTS, max_tokens=3000, stream_options=always)
    ) as connection:
        wait_for_streams(server, SLOTS)
        wait_for_streams(server, 0)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    lines = [line.removeprefix(b"data: ") for line in received.splitlines() if line.startswith(b"data: ")]
    choices = [choice for line in lines[:-1] for choice in json.loads(line)["choices"]]
    assert (lines[-1], len(received) > 10**6) == (b"[DONE]", True)
    for index in range(SLOTS):
        assert "".join(choice["text"] for choice in choices if choice["index"] == index) == "ab" * 1500
