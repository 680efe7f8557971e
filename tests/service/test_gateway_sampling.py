"""What the fields of a request do to the answers of the bundled model on OpenVINO, on both routes, whole and streamed.

Together with the service tests beside it, these are the behaviours that Triton's own OpenAI frontend is tested for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .gateway import CHAT, COMPLETIONS, Gateway, Reply, beside, send, text_of
from .serving import serve

pytestmark = pytest.mark.service

QUESTION = {"role": "user", "content": "What is machine learning?"}
PROMPTS: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [QUESTION]},
    COMPLETIONS: {"prompt": "Machine learning is"},
}
ROUTES = list(PROMPTS)
MODES = [False, True]


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serve(tmp_path_factory.mktemp("sampling"), None, "--max-num-seqs", "4", engine="openvino") as running:
        yield beside(running)


def ask(front: Gateway, route: str, **fields: Any) -> Reply:
    return send(front, route, {"model": "smollm2", **PROMPTS[route], **fields})


def text(front: Gateway, route: str, **fields: Any) -> str:
    return text_of(ask(front, route, **fields))


@pytest.mark.parametrize("route", ROUTES)
def test_temperature_0_always_says_the_same_and_temperature_1_does_not(front: Gateway, route: str) -> None:
    same = {text(front, route, temperature=0, max_tokens=30, stream=stream) for stream in (False, True, False)}
    different = {text(front, route, temperature=1, max_tokens=30, stream=stream) for stream in (False, True, False)}
    assert len(same) == 1
    assert len(different) > 1


@pytest.mark.parametrize("route", ROUTES)
def test_a_seed_repeats_its_answer_in_both_modes(front: Gateway, route: str) -> None:
    fields = {"temperature": 1, "max_tokens": 30}
    first, again = (text(front, route, seed=1, stream=stream, **fields) for stream in MODES)
    assert first == again != text(front, route, seed=2, **fields)


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize(
    ("route", "limits", "made"),
    [
        (CHAT, {"max_tokens": 1}, 1),
        (CHAT, {"max_completion_tokens": 1}, 1),
        (CHAT, {"max_completion_tokens": 5, "max_tokens": 20}, 5),
        (CHAT, {"max_completion_tokens": None, "max_tokens": 3}, 3),
        (CHAT, {"max_tokens": 100, "min_tokens": 100}, 100),
        (COMPLETIONS, {"max_tokens": 1}, 1),
        (COMPLETIONS, {"max_tokens": 100, "ignore_eos": True}, 100),
    ],
)
def test_an_answer_is_as_long_as_it_may_be(
    front: Gateway, route: str, limits: dict[str, Any], made: int, stream: bool
) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    reply = ask(front, route, temperature=0, **limits, **options)
    usage = reply.events[-2]["usage"] if stream else reply.json["usage"]
    assert usage["completion_tokens"] == made
    assert usage["total_tokens"] == usage["prompt_tokens"] + made
    choices = reply.choices if stream else reply.json["choices"]
    assert choices[-1]["finish_reason"] == "length"


@pytest.mark.parametrize("stop", ["is", ["is"], ["learning", ".", ","]])
@pytest.mark.parametrize("route", ROUTES)
def test_stop_texts_end_both_modes_at_the_same_place(front: Gateway, route: str, stop: Any) -> None:
    unstopped = text(front, route, temperature=0, max_tokens=64)
    end = min(unstopped.index(one) for one in ([stop] if isinstance(stop, str) else stop) if one in unstopped)
    for stream in MODES:
        assert text(front, route, temperature=0, max_tokens=64, stop=stop, stream=stream) == unstopped[:end]


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "You are an expert."}, QUESTION],
        [{"role": "system", "content": "You are an expert."}],
        [{"role": "developer", "content": "You are an expert."}, QUESTION],
        [{"role": "user", "content": [{"type": "text", "text": "What is machine learning?"}]}],
        [QUESTION, {"role": "assistant", "content": "A field."}, QUESTION],
    ],
)
def test_chats_of_every_shape_get_an_answer(front: Gateway, messages: list[Any], stream: bool) -> None:
    reply = send(front, CHAT, {"model": "smollm2", "messages": messages, "max_tokens": 16, "stream": stream})
    assert text_of(reply).strip()
    said = [
        choice["delta"] if stream else choice["message"]
        for choice in (reply.choices if stream else reply.json["choices"])
    ]
    assert [one["role"] for one in said if "role" in one] == ["assistant"]


@pytest.mark.parametrize("stream", MODES)
def test_the_prompt_is_echoed_only_when_asked(front: Gateway, stream: bool) -> None:
    prompt = PROMPTS[COMPLETIONS]["prompt"]
    fields = {"temperature": 0, "max_tokens": 8, "stream": stream}
    plain = text(front, COMPLETIONS, **fields)
    assert not plain.startswith(prompt)
    assert text(front, COMPLETIONS, echo=True, **fields) == prompt + plain
