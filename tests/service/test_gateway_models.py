"""Models as the gateway sees them: their names, and tokenizers and templates that lack something."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.unit.preprocess.toy_models import CONFIG, CONTEXT, write_bos_model, write_model

from .gateway import COMPLETIONS, Gateway, beside, chat, complete, refusal, send, text_of
from .serving import serve

pytestmark = pytest.mark.service

FAST = ("--set", "tokens_per_second=1000")


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("models")
    model = write_model(folder / "toy", chat_template=None, config=CONFIG)
    with serve(folder / "triton", model, *FAST) as running:
        yield beside(running)


@pytest.mark.parametrize("name", ["org/模型-7b v1", "..", "a/../b", "x" * 300, "\x1b[31m[ERROR] fake"])
def test_b64_unknown_models_of_any_name_are_a_404(front: Gateway, name: str) -> None:
    asked = send(front, f"/v1/models/{quote(name, safe='')}")
    assert (asked.status, asked.error["code"], asked.error["param"]) == (404, "model_not_found", "model")
    for stream in [False, True]:
        reply = send(front, COMPLETIONS, {"model": name, "prompt": "a", "stream": stream})
        assert (reply.status, reply.error["code"]) == (404, "model_not_found")


def test_models(front: Gateway) -> None:
    listed = send(front, "/v1/models").json
    assert [model["id"] for model in listed["data"]] == ["toy"]
    assert send(front, "/v1/models/toy").json == listed["data"][0]
    assert listed["data"][0]["max_model_len"] == CONTEXT
    assert 0 < listed["data"][0]["created"] <= time.time()


def test_b20_template_and_tokenizer_write_one_bos_between_them(tmp_path: Path) -> None:
    model = write_bos_model(tmp_path / "toy")
    with serve(tmp_path / "triton", model, *FAST) as server:
        front = beside(server)
        asked = send(front, "/tokenize", {"model": "toy", "messages": [{"role": "user", "content": "Hi"}]}).json
        assert (asked["tokens"][0], asked["tokens"].count(1)) == (1, 1)
        assert chat(front, "Hi", max_tokens=1).json["usage"]["prompt_tokens"] == asked["count"]
        for text in ("Hi", "<s>Hi"):
            asked = send(front, "/tokenize", {"model": "toy", "prompt": text}).json
            assert asked["tokens"].count(1) == 1
            assert complete(front, text, max_tokens=1).json["usage"]["prompt_tokens"] == asked["count"]
        assert complete(front, "", max_tokens=1).json["usage"]["prompt_tokens"] == 1  # b37: the BOS alone


@pytest.mark.parametrize("stream", [False, True])
def test_b26_no_chat_template(front: Gateway, stream: bool) -> None:
    param, message = refusal(chat(front, "Hi", stream=stream))
    assert (param, "no chat template" in message) == ("messages", True)
    assert text_of(complete(front, "Hi", stream=stream)) == "Hi"
