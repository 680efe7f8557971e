"""B64: a model whose name no folder can have, asked by everything that has a name in it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from .gateway import beside, chat, complete, send
from .serving import serve

pytestmark = pytest.mark.service

NAME = "org/模型-7b v1"
TRITON_NAME = "org-7b-v1-e8f3448a"


@pytest.mark.parametrize("name", ["..", "a/../b", "", "x" * 300])
def test_names_that_would_leave_their_folder_are_refused(toy_model: Path, name: str) -> None:
    command = [sys.executable, "-m", "tritone", "serve", str(toy_model), "--engine", "scripted", "--name", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert "name" in done.stderr


def test_a_model_is_known_by_its_served_name(tmp_path: Path, toy_model: Path) -> None:
    with serve(tmp_path, toy_model, "--name", NAME, "--set", "tokens_per_second=1000") as server:
        front = beside(server)
        listed = send(front, "/v1/models").json["data"]
        assert [model["id"] for model in listed] == [NAME]
        for path in (quote(NAME), quote(NAME, safe="")):
            assert send(front, f"/v1/models/{path}").json == listed[0]
        assert send(front, f"/v1/models/{TRITON_NAME}").status == 404
        assert chat(front, "Hi", model=NAME, max_tokens=2).json["model"] == NAME
        for chunk in complete(front, model=NAME, max_tokens=2, stream=True).events[:-1]:
            assert chunk["model"] == NAME
        assert send(front, "/tokenize", {"model": NAME, "prompt": "Hi"}).json["count"] == 2
        assert f'model_name="{NAME}"' in send(front, "/metrics").body.decode()

        commands = [shlex.split(line) for line in server.out.read_text().splitlines() if line.startswith("curl")]
        assert [TRITON_NAME in command[2] for command in commands] == [True, True, False]
        for *_, url, _, body in commands:  # sent as curl would, which not every machine has
            with urlopen(url, body.encode(), timeout=30) as answer:
                assert (answer.status, answer.read(6)) == (200, b"data: ")
        for name in ([], ["--model", NAME], ["--model", TRITON_NAME]):
            ask = [sys.executable, "-m", "tritone", "ask", "--url", server.grpc, *name, "Hi"]
            assert subprocess.run(ask, capture_output=True, text=True, timeout=60).stdout == "[user]Hi\n"
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    assert {line["model"] for line in lines if line["path"] == "/v1/completions"} == {NAME}
