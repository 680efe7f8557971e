"""`tritone ask` and `tritone chat` against the real Triton.

The scripted engine repeats the prompt, which a template made, up to its first end token: "[user]hi<|im_end|>…".
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.serving import HOST, Server, free_ports, generate, serve

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    with serve(
        tmp_path_factory.mktemp("server"), toy_model, "--max-num-seqs", "1", "--set", "tokens_per_second=100"
    ) as server:
        yield server


def tritone(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tritone", *arguments], input=typed, capture_output=True, text=True, timeout=60
    )


def test_ask_prints_the_answer(server: Server) -> None:
    done = tritone("ask", "--url", server.grpc, "--system", "be brief", "hi")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[system]be brief\n", "")


def test_ask_stops_at_max_tokens(server: Server) -> None:
    assert tritone("ask", "--url", server.grpc, "--model", "toy", "--max-tokens", "6", "hi").stdout == "[user]\n"


def test_ctrl_c_cancels_the_answer_and_frees_the_engine_at_once(server: Server) -> None:
    command = [sys.executable, "-m", "tritone", "ask", "--url", server.grpc, "x" * 5000]
    with subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=_hear_ctrl_c) as asking:
        assert asking.stdout
        assert asking.stdout.read(20) == b"[user]xxxxxxxxxxxxxx"
        started_s = time.monotonic()
        asking.send_signal(signal.SIGINT)
        assert asking.wait(5) == 130
    assert generate(server, "toy", text_input="next")["text_output"] == "next"  # the only slot is free
    assert time.monotonic() - started_s < 2


def test_chat_keeps_the_conversation_until_told_to_forget_it(server: Server) -> None:
    done = tritone("chat", "--url", server.grpc, typed="a\n\nb\n/clear\nc\n/exit\nd\n")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "[user]a",
        "[user]a",  # the conversation still begins so
        "[user]c",
    ]


def test_says_what_to_do_without_a_server() -> None:
    (port,) = free_ports(1)
    done = tritone("ask", "--url", f"{HOST}:{port}", "hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: no server answers at {HOST}:{port} (any more): start one with `tritone serve`\n"


def test_passes_on_why_a_request_is_refused(server: Server) -> None:
    done = tritone("ask", "--url", server.grpc, "--max-tokens", "1000000", "hi")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: max_tokens: got 1000000, allowed: ")
    assert len(done.stderr.splitlines()) == 1


def test_names_a_model_that_is_not_served(server: Server) -> None:
    done = tritone("ask", "--url", server.grpc, "--model", "other", "hi")
    assert done.returncode == 1
    assert "other" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def _hear_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a test run in the background would hand on that it is ignored
