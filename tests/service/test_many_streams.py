"""Many streams at once: order, a reader that does not read, and memory that stays."""

from __future__ import annotations

import gc
import http.client
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from .grpc_client import Stream, text_of
from .serving import HOST, Server, generate_stream, serve, wait_until

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    options = ("--set", "tokens_per_second=2000", "--set", "jitter=0.5", "--max-num-seqs", "128")
    with serve(tmp_path_factory.mktemp("many"), toy_model, "--max-model-len", "65536", *options) as running:
        yield running


def test_b52_every_stream_gets_its_own_text_complete_and_in_order(server: Server) -> None:
    texts = [" ".join(f"r{stream:02}-{number:04}" for number in range(40)) for stream in range(64)]

    def ask(stream: int) -> str:
        if stream % 2:
            return text_of(list(Stream(server.grpc, "toy", text_input=texts[stream])))
        return text_of(list(generate_stream(server, "toy", text_input=texts[stream])))

    with ThreadPoolExecutor(64) as pool:
        assert list(pool.map(ask, range(64))) == texts


def test_b66_slow_reader_slows_nobody_and_holds_bounded_memory(server: Server) -> None:
    """60,000 tokens for a client that does not read: what waits for it is at most its own answer."""
    process = psutil.Process(server.server_pid)
    before = process.memory_info().rss
    alone_s = timed_answer(server)
    slow = socket.create_connection((HOST, server.http_port))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    body = json.dumps({"text_input": "slow", "ignore_eos": True, "max_tokens": 60_000})
    slow.sendall(
        f"POST /v2/models/toy/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    wait_until(lambda: server.run.live_streams() == 1, 5)
    beside_s = min(timed_answer(server) for _ in range(3))
    time.sleep(3)
    assert beside_s < 2 * alone_s + 0.5
    assert process.memory_info().rss - before < 64 * 2**20
    slow.close()
    wait_until(lambda: server.run.live_streams() == 0, 10)


def timed_answer(server: Server) -> float:
    """Seconds for 200 tokens."""
    started_s = time.monotonic()
    assert len(text_of(list(Stream(server.grpc, "toy", text_input="n" * 200)))) == 200
    return time.monotonic() - started_s


def test_b58_memory_handles_and_threads_stay_flat(server: Server) -> None:
    """Rounds of streams, with cancelled ones in the second: from then on nothing grows."""
    random_source = random.Random(1)
    sizes = []
    for round_number in range(5):
        play_round(server, random_source, cancelled=200 if round_number == 1 else 0)
        wait_until(lambda: server.run.live_streams() == 0, 15)
        sizes.append(measure(server))
    for name in sizes[0]:
        for what in ("rss", "handles", "threads"):
            early, late = sizes[2][name][what], sizes[4][name][what]
            limit = 5 * 2**20 if what == "rss" else 2
            assert late - early <= limit, (name, what, [size[name][what] for size in sizes])


def play_round(server: Server, random_source: random.Random, cancelled: int) -> None:
    lengths = [random_source.randint(1, 60) for _ in range(400)]

    def ask(length: int) -> None:
        answer = list(generate_stream(server, "toy", text_input="m" * 60, max_tokens=length))
        assert answer[-1]["num_output_tokens"] == length

    def leave(_: int) -> None:
        connection = http.client.HTTPConnection(HOST, server.http_port, timeout=30)
        connection.request("POST", "/v2/models/toy/generate_stream", json.dumps({"text_input": "c" * 60}))
        connection.close()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, lengths))
        list(pool.map(leave, range(cancelled)))
    assert threading.active_count() < 50
    gc.collect()


def measure(server: Server) -> dict[str, dict[str, int]]:
    """Memory, handles and threads of the server and each stage."""
    processes = {"server": server.server_pid}
    processes |= {stage: server.stage_pid(stage) for stage in ("preprocess", "engine", "postprocess")}
    result = {}
    for name, pid in processes.items():
        process = psutil.Process(pid)
        result[name] = {
            "rss": process.memory_info().rss,
            "handles": process.num_fds(),
            "threads": process.num_threads(),
        }
    return result
