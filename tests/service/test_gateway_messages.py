"""What chats and texts become that break others: field reports, by number, through a real Triton."""

from __future__ import annotations

import pytest

from .gateway import CHAT, COMPLETIONS, Gateway, chat, complete, prompt_of, refusal, send, text_of

pytestmark = pytest.mark.service

MODES = [False, True]


@pytest.mark.parametrize("stream", MODES)
def test_b19_what_the_template_refuses_is_a_400_with_its_words(front: Gateway, stream: bool) -> None:
    system, user, empty = (
        {"role": role, "content": text} for role, text in (("system", "s"), ("user", "u"), ("assistant", ""))
    )
    assert "System role not supported" in refusal(chat(front, system, user, stream=stream))[1]
    param, message = refusal(chat(front, user, user, stream=stream))
    assert (param, "Conversation roles must alternate" in message) == ("messages", True)
    assert refusal(chat(front, stream=stream))[0] == "messages"
    uncalled = chat(front, user, {"role": "tool", "tool_call_id": "c", "content": "4"}, stream=stream)
    assert "No tool was called" in refusal(uncalled)[1]
    assert text_of(chat(front, user, empty, user, stream=stream)) == "[user]u"


def test_b21_content_null_beside_tool_calls(front: Gateway) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    without = {"role": "assistant", "tool_calls": [call]}
    prompts = [
        prompt_of(front, {"role": "user", "content": "q"}, one) for one in (without, {**without, "content": None})
    ]
    assert prompts == ["[user]q<|im_end|>[assistant]<f x=1><|im_end|>[assistant]"] * 2
    param, _ = refusal(chat(front, {"role": "user", "content": None}))
    assert str(param).startswith("messages[0]")


def test_b23_final_message_is_continued_where_it_ends(front: Gateway) -> None:
    user = {"role": "user", "content": "q"}
    for text in ("The capital is ", "", "q"):
        prompt = prompt_of(front, user, {"role": "assistant", "content": text}, continue_final_message=True)
        assert prompt == f"[user]q<|im_end|>[assistant]{text}"
    final = {"role": "assistant", "content": "x"}
    both = chat(front, user, final, continue_final_message=True, add_generation_prompt=True)
    assert refusal(both)[0] == "continue_final_message"
    assert str(refusal(chat(front, user, continue_final_message=True))[0]) == "continue_final_message"


def test_b24_parts_of_text_are_joined_and_others_refused(front: Gateway) -> None:
    parts = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    assert text_of(chat(front, {"role": "user", "content": parts})) == "[user]AB"
    assert text_of(chat(front, {"role": "user", "content": []})) == "[user]"
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    param, message = refusal(chat(front, {"role": "user", "content": [*parts, image]}))
    assert (param, "text parts only" in message) == ("messages[0].content[2]", True)


@pytest.mark.parametrize("stream", ["false", "true"])
def test_b28_half_of_a_surrogate_pair_is_refused_by_name(front: Gateway, stream: str) -> None:
    for name in ("model", "prompt", "stop"):
        fields = {"model": '"toy"', "prompt": '"a"', "stop": '"z"', "stream": stream, name: '"\\ud83d"'}
        body = "{" + ", ".join(f'"{key}": {value}' for key, value in fields.items()) + "}"
        param, message = refusal(send(front, COMPLETIONS, body.encode()))
        assert (param, "Error" in message) == (name, False)
    content = '{"model": "toy", "stream": %s, "messages": [{"role": "user", "content": "%s"}]}'
    assert str(refusal(send(front, CHAT, (content % (stream, "\\ud83d")).encode()))[0]).startswith("messages")
    assert text_of(send(front, CHAT, (content % (stream, "\\ud83d\\ude00")).encode())) == "[user]😀"


@pytest.mark.parametrize("stream", MODES)
def test_b29_nul_is_a_character_like_others(front: Gateway, stream: bool) -> None:
    assert text_of(complete(front, "he\0llo", stream=stream)) == "he\0llo"
    assert complete(front, "he\0llo").json["usage"]["prompt_tokens"] == 6


@pytest.mark.parametrize("stream", [b"false", b"true"])
def test_b29_bytes_that_are_no_text_are_refused(front: Gateway, stream: bytes) -> None:
    body = b'{"model": "toy", "prompt": "\xff\xfeA", "stream": %s}' % stream
    assert "UTF-8" in refusal(send(front, COMPLETIONS, body))[1]
