"""Models whose chat template, or end tokens, are not where the simplest programs look: field reports, by number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.toy_tokenizers import IM_END
from tests.unit.preprocess.toy_models import CONFIG, write_model

from .gateway import Gateway, Reply, beside, chat, complete, prompt_of, refusal, text_of
from .serving import Server, launched, serve

pytestmark = pytest.mark.service

FAST = ("--set", "tokens_per_second=1000")
MODES = [False, True]

ONLY_TEXTS = "{{ messages | map(attribute='content') | map('trim') | join('<|im_end|>') }}"
WITH_TOOLS = "{% for tool in tools %}({{ tool.function.name }}){% endfor %}" + ONLY_TEXTS
ONLY_PARTS = (
    "{% for tool in tools or [] %}({{ tool.function.name }}){% endfor %}{% for message in messages %}"
    "[{{ message.role }}]{% for part in message.content %}{{ part.text }}{% endfor %}<|im_end|>{% endfor %}"
)
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Has templates by name, which trim; config.json has one of its two end tokens."""
    folder = tmp_path_factory.mktemp("named")
    templates = [{"name": "default", "template": ONLY_TEXTS}, {"name": "tool_use", "template": WITH_TOOLS}]
    ends = {"eos_token_id": [2, IM_END]}
    config = {**CONFIG, "eos_token_id": 2}
    model = write_model(folder / "toy", chat_template=templates, config=config, generation_config=ends)
    with serve(folder / "triton", model, *FAST) as running:
        yield beside(running)


@pytest.fixture(scope="module")
def in_a_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Has its template in a file, which takes lists of parts only; no end token is named anywhere."""
    folder = tmp_path_factory.mktemp("file")
    config = {name: value for name, value in CONFIG.items() if name != "eos_token_id"}
    model = write_model(folder / "toy", chat_template=None, config=config)
    (model / "chat_template.jinja").write_text(ONLY_PARTS)
    with serve(folder / "triton", model, *FAST) as running:
        yield running


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize("text", ["The capital is ", "", "q"])
def test_b23_a_template_that_trims_leaves_the_final_message_as_it_is(named: Gateway, text: str) -> None:
    final = {"role": "assistant", "content": text}
    prompt = prompt_of(named, user(" q "), final, continue_final_message=True)
    assert prompt == f"q<|im_end|>{text}"


@pytest.mark.parametrize("content", ["AB", [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]])
def test_b24_a_template_that_loops_over_parts(in_a_file: Server, content: Any) -> None:
    front = beside(in_a_file)
    assert prompt_of(front, user(content)) == "[user]AB<|im_end|>"
    assert prompt_of(front, user([])) == "[user]<|im_end|>"


def test_b26_templates_by_name_and_in_a_file_are_used(named: Gateway, in_a_file: Server) -> None:
    for front, plain in ((named, "hi"), (beside(in_a_file), "[user]hi<|im_end|>")):
        assert prompt_of(front, user("hi")) == plain
        assert prompt_of(front, user("hi"), tools=[TOOL]) == f"(f){plain}"


def test_b26_a_template_that_is_no_jinja_is_told_at_start_with_its_line(tmp_path: Path) -> None:
    model = write_model(tmp_path / "toy", chat_template="{% if messages %}\n{{ messages[ }}")
    with launched(tmp_path / "triton", model) as server:
        assert server.process.wait(60) == 1
    assert "chat_template: line 2: " in server.log.read_text().splitlines()[-1]


@pytest.mark.parametrize("stream", MODES)
def test_b37_messages_that_become_no_prompt(named: Gateway, stream: bool) -> None:
    assert refusal(chat(named, " ", stream=stream))[0] == "messages"


@pytest.mark.parametrize("stream", MODES)
def test_b38_every_end_token_of_the_generation_config_ends_an_answer(named: Gateway, stream: bool) -> None:
    ids = [*b"ok", IM_END, *b"junk"]
    ended = complete(named, ids, stream=stream)
    assert (text_of(ended), reasons(ended)) == ("ok", ["stop"])
    on = complete(named, ids, ignore_eos=True, max_tokens=len(ids), stream=stream)
    assert (text_of(on), reasons(on)) == ("okjunk", ["length"])


def reasons(reply: Reply) -> list[str]:
    choices = reply.choices if reply.headers["content-type"].startswith("text/event-stream") else reply.json["choices"]
    return [choice["finish_reason"] for choice in choices if choice["finish_reason"]]


def test_b38_a_model_without_end_token_is_warned_of(in_a_file: Server) -> None:
    assert "names an end token" in in_a_file.log.read_text()
    reply = complete(beside(in_a_file), "ab", max_tokens=5)
    assert (text_of(reply), reasons(reply)) == ("ababa", ["length"])


@pytest.mark.parametrize("choice", ["auto", "none"])
@pytest.mark.parametrize("stream", MODES)
def test_tools_reach_the_template_and_a_call_comes_back_as_text(in_a_file: Server, choice: str, stream: bool) -> None:
    front = beside(in_a_file)
    reply = chat(front, "hi", tools=[TOOL], tool_choice=choice, max_tokens=11, stream=stream)
    assert (text_of(reply), reasons(reply)) == ("(f)[user]hi", ["length"])
    forced = {"type": "function", "function": {"name": "f"}}
    assert refusal(chat(front, "hi", tools=[TOOL], tool_choice=forced, stream=stream))[0] == "tool_choice"
