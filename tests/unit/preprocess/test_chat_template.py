from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from preprocess.chat_template import Chat, ChatTemplate
from preprocess.errors import InvalidRequest
from preprocess.tokenizer import load_tokenizer
from tests.unit.preprocess.toy_models import PLAIN_CHAT, write_model

STRICT = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% if m.role != ('user' if loop.index0 % 2 == 0 else 'assistant') %}"
    "{{ raise_exception('Roles must alternate') }}{% endif %}({{ m.content | trim }}){% endfor %}"
)
PARTS = "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{{ p.text }};{% endfor %}{% endfor %}"
BOTH = (
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for p in m.content %}{{ p['text'] }}{% endfor %}{% endif %}{% endfor %}"
)
TOOLS = "{% if tools %}tools={{ tools | tojson }} {% endif %}" + PLAIN_CHAT

USER = {"role": "user", "content": "Hi"}
AB = {"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]}


def template(folder: Path, source: Any = PLAIN_CHAT, override: str | None = None, **config: Any) -> ChatTemplate:
    return ChatTemplate(load_tokenizer(write_model(folder, chat_template=source, **config), False)[1], override)


def assistant(text: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def refusal(chat_template: ChatTemplate, chat: Chat) -> str:
    with pytest.raises(InvalidRequest) as caught:
        chat_template.render(chat)
    return str(caught.value)


def test_a_chat_is_rendered_with_or_without_the_start_of_an_answer(tmp_path: Path) -> None:
    plain = template(tmp_path)
    assert plain.render(Chat([USER])) == "[user]Hi<|im_end|>[assistant]"
    assert plain.render(Chat([USER], add_generation_prompt=False)) == "[user]Hi<|im_end|>"


def test_an_empty_turn_is_a_turn(tmp_path: Path) -> None:
    chat = Chat([USER, assistant(""), USER], add_generation_prompt=False)
    assert template(tmp_path).render(chat) == "[user]Hi<|im_end|>[assistant]<|im_end|>[user]Hi<|im_end|>"


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([{"role": "system", "content": "x"}, USER], "System role not supported"),
        ([USER, USER], "Roles must alternate"),
    ],
)
def test_what_the_template_raises_reaches_the_client(tmp_path: Path, messages: list[Any], text: str) -> None:
    assert refusal(template(tmp_path, STRICT), Chat(messages)) == f"messages: refused by the chat template: {text}"


@pytest.mark.parametrize("source", ["{{ 1 // 0 }}", "{{ messages[0].content + 1 }}"])
def test_a_failing_template_is_answered_with_a_fixed_text(
    tmp_path: Path, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    failing = template(tmp_path, source)
    assert refusal(failing, Chat([USER])) == "messages: the chat template cannot render these messages"
    assert caplog.messages[-1].startswith("the chat template failed: ")


def test_the_sandbox_holds(tmp_path: Path) -> None:
    text = refusal(template(tmp_path, "{{ messages.append(1) }}"), Chat([USER]))
    assert text.startswith("messages: refused by the chat template: ")


@pytest.mark.parametrize(
    ("source", "expected"), [("{{ messages[0].content }}", "AB"), (PARTS, "[user]AB;"), (BOTH, "AB")]
)
def test_parts_are_joined_whatever_the_template_takes(tmp_path: Path, source: str, expected: str) -> None:
    assert template(tmp_path, source).render(Chat([AB])) == expected


def test_a_plain_string_survives_a_template_that_loops_over_parts(tmp_path: Path) -> None:
    looping = template(tmp_path, PARTS)
    assert looping.render(Chat([USER, assistant("")])) == "[user]Hi;[assistant];"
    chat = Chat([USER, assistant("Hel")], continue_final_message=True)
    assert looping.render(chat) == "[user]Hi;[assistant]Hel"


def test_a_tool_call_without_content_prints_no_none(tmp_path: Path) -> None:
    call = {"function": {"name": "now", "arguments": '{"zone": "CET"}'}}
    messages = [USER, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "content": "12"}]
    text = template(tmp_path).render(Chat(messages))
    assert text == "[user]Hi<|im_end|>[assistant]<now zone=CET><|im_end|>[tool]12<|im_end|>[assistant]"


class TestContinueFinalMessage:
    @pytest.mark.parametrize("source", [PLAIN_CHAT, PLAIN_CHAT.replace("m.content", "m.content | trim")])
    @pytest.mark.parametrize("text", ["The capital is ", "", "Hi", "Hi<|im_end|>"])
    def test_the_prompt_ends_with_the_text_as_sent(self, tmp_path: Path, source: str, text: str) -> None:
        chat = Chat([USER, assistant("Hi"), USER, assistant(text)], continue_final_message=True)
        expected = "[user]Hi<|im_end|>[assistant]Hi<|im_end|>[user]Hi<|im_end|>[assistant]" + text
        assert template(tmp_path, source).render(chat) == expected

    def test_parts_are_continued_after_the_last_one(self, tmp_path: Path) -> None:
        chat = Chat([USER, assistant(AB["content"])], continue_final_message=True)
        assert template(tmp_path).render(chat) == "[user]Hi<|im_end|>[assistant]AB"

    def test_a_text_printed_twice_is_cut_at_its_last_end(self, tmp_path: Path) -> None:
        twice = template(tmp_path, "{% for m in messages %}{{ m.content }}|{{ m.content }}.{% endfor %}")
        assert twice.render(Chat([assistant("ab")], continue_final_message=True)) == "ab|ab"

    @pytest.mark.parametrize("last", [USER, {"role": "assistant", "tool_calls": [{"function": {"name": "now"}}]}])
    def test_only_assistant_text_can_be_continued(self, tmp_path: Path, last: dict[str, Any]) -> None:
        text = refusal(template(tmp_path), Chat([USER, last], continue_final_message=True))
        assert text == "continue_final_message: the last message must be an assistant message with text"

    def test_a_template_that_drops_the_text_is_reported(self, tmp_path: Path) -> None:
        text = refusal(
            template(tmp_path, "{{ messages[0].content }}"), Chat([USER, assistant("a")], None, {}, True, True)
        )
        assert text == "continue_final_message: the chat template leaves out the text of the last message"


class TestToolsAndOptions:
    def test_tools_reach_a_template_that_takes_them(self, tmp_path: Path) -> None:
        text = template(tmp_path, TOOLS).render(Chat([USER], tools=[{"name": "now"}]))
        assert text == 'tools=[{"name": "now"}] [user]Hi<|im_end|>[assistant]'

    def test_an_empty_list_means_no_tools(self, tmp_path: Path) -> None:
        assert template(tmp_path).render(Chat([USER], tools=[])) == "[user]Hi<|im_end|>[assistant]"

    def test_tools_that_would_be_ignored_are_refused(self, tmp_path: Path) -> None:
        text = refusal(template(tmp_path), Chat([USER], tools=[{"name": "now"}]))
        assert text == "tools: this model's chat template takes no tools"

    def test_tool_calls_that_would_be_ignored_are_refused(self, tmp_path: Path) -> None:
        messages = [USER, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "now"}}]}]
        text = refusal(template(tmp_path, "{{ messages[1].content }}"), Chat(messages))
        assert text == "messages[1].tool_calls: this model's chat template takes no tool calls"

    def test_a_tool_is_an_object(self, tmp_path: Path) -> None:
        assert refusal(template(tmp_path, TOOLS), Chat([USER], tools=["now"])) == "tools[0]: must be an object"

    def test_options_reach_the_template(self, tmp_path: Path) -> None:
        thinking = template(tmp_path, "{{ 'think' if enable_thinking else 'plain' }}")
        assert thinking.render(Chat([USER])) == "plain"
        assert thinking.render(Chat([USER], template_kwargs={"enable_thinking": True})) == "think"

    @pytest.mark.parametrize(
        "name",
        [
            "enable_thinking",
            "messages",
            "tools",
            "add_generation_prompt",
            "chat_template",
            "tokenize",
            "bos_token",
            "range",
        ],
    )
    def test_options_that_are_unknown_or_not_the_clients_are_refused(self, tmp_path: Path, name: str) -> None:
        source = "{{ messages }}{{ tools }}{{ chat_template }}{{ tokenize }}{{ bos_token }}{{ range }}" + PLAIN_CHAT
        text = refusal(template(tmp_path, source, bos_token="<think>"), Chat([USER], template_kwargs={name: 1}))
        assert text == f"chat_template_kwargs: {name!r} is not an option of this chat template"


class TestWhereTheTemplateComesFrom:
    def test_a_model_without_template_loads_and_says_what_works(self, tmp_path: Path) -> None:
        text = refusal(template(tmp_path, None), Chat([USER]))
        assert text == "messages: this model has no chat template; send the prompt as text_input instead"

    def test_a_template_file_is_used(self, tmp_path: Path) -> None:
        (tmp_path / "chat_template.jinja").write_text("file: {{ messages[0].content }}", encoding="utf-8")
        assert template(tmp_path, None).render(Chat([USER])) == "file: Hi"

    def test_the_default_one_of_several_is_used_and_tool_use_for_tools(self, tmp_path: Path) -> None:
        named = [{"name": "default", "template": "default"}, {"name": "tool_use", "template": "{{ tools[0].name }}"}]
        several = template(tmp_path, named)
        assert several.render(Chat([USER])) == "default"
        assert several.render(Chat([USER], tools=[{"name": "now"}])) == "now"

    def test_an_override_is_a_template_or_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "own.jinja"
        file.write_text("own {{ messages[0].content }}", encoding="utf-8")
        assert template(tmp_path, override=str(file)).render(Chat([USER])) == "own Hi"
        assert template(tmp_path, override="{{ messages[0].role }}").render(Chat([USER])) == "user"
        with pytest.raises(ValueError, match=r"^chat_template: '/nowhere' is neither a Jinja template nor a file$"):
            template(tmp_path, override="/nowhere")

    @pytest.mark.parametrize("name", ["default", "tool_use"])
    def test_a_broken_template_is_reported_with_its_line(self, tmp_path: Path, name: str) -> None:
        named = {"default": "fine", "tool_use": "fine", name: "line one\n{% for m in %}"}
        listed = [{"name": key, "template": value} for key, value in named.items()]
        with pytest.raises(ValueError, match=r"^chat_template: line 2: "):
            template(tmp_path, listed)
