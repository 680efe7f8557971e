from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from perf.__main__ import main
from perf.load.lengths import Lengths, Span, parse_lengths
from perf.load.record import LoadRecord
from perf.locust_run import lengths_text, locust_command, read_records

OPTIONS: dict[str, Any] = {
    "url": "http://host:9000",
    "triton_url": "http://host:8000",
    "grpc_url": "host:8001",
    "model": "m",
    "fronts": ("chat", "grpc"),
    "users": 4,
    "spawn_rate": None,
    "run_time": 30,
    "shape": "spike",
    "steps": 5,
    "tokenizer": None,
    "prompt_tokens": parse_lengths("64:0.5,100-200"),
    "output_tokens": parse_lengths("128"),
    "timeout_s": 9.5,
    "api_key_env": None,
    "seed": 3,
    "web": False,
    "web_port": 8089,
}


def test_command_headless() -> None:
    command = locust_command(OPTIONS, Path("/out"))
    assert command[-2:] == ["ChatUser", "GrpcUser"]
    assert {"--headless", "--users=4", "--spawn-rate=4", "--run-time=30s", "--load-shape=spike"} <= set(command)
    assert {"--host=http://host:9000", "--prompt-tokens=64-64:0.5,100-200:1", "--answer-timeout=9.5"} <= set(command)
    assert "--records=/out/requests.jsonl" in command


def test_the_page_listens_on_loopback_only() -> None:
    command = locust_command({**OPTIONS, "web": True}, Path("/out"))
    assert command[command.index("--web-host") + 1] == "127.0.0.1"
    assert "--headless" not in command


def test_a_folder_has_its_tokenizer(tmp_path: Path) -> None:
    command = locust_command({**OPTIONS, "tokenizer": tmp_path}, Path("/out"))
    assert f"--tokenizer-file={tmp_path / 'tokenizer.json'}" in command


spans = st.builds(lambda low, more, weight: Span(low, low + more, weight), *[st.integers(1, 999)] * 2, st.just(0.25))


@given(st.lists(spans, min_size=1).map(lambda found: Lengths(tuple(found))))
def test_lengths_are_told_as_they_are_read(lengths: Lengths) -> None:
    assert parse_lengths(lengths_text(lengths)) == lengths


def test_records_by_front(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    assert read_records(file) == {}
    one = LoadRecord(1, 1, (2,), (3,), 4, 5, "counted")
    file.write_text("".join(json.dumps({"front": front, **one._asdict()}) + "\n" for front in ("chat", "grpc", "chat")))
    assert read_records(file) == {"chat": [one, one], "grpc": [one]}


def test_a_key_that_is_not_there(tmp_path: Path) -> None:
    given_options = ["--model", "m", "--api-key-env", "NO_SUCH_KEY", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, ["locust", *given_options])
    assert (result.exit_code, "has no NO_SUCH_KEY" in result.output) == (2, True)
