"""What we write, read by the openai library itself, over a transport that opens no socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tritone.gateway import sse
from tritone.gateway.answers import ChatAnswer, CompletionAnswer
from tritone.gateway.chat_request import ChatRequest
from tritone.gateway.chunks import ChatStream, CompletionStream
from tritone.gateway.completion_request import CompletionRequest
from tritone.gateway.openai_error import OpenAIError

from .sample_requests import event

openai = pytest.importorskip("openai")
httpx = pytest.importorskip("httpx2")  # comes with it

QUESTION: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
WITH_USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
FIRST, LAST = event("a\u2028\n\n", 1, sent=3), event("😀", 2, "length", 3)
TEXT = "a\u2028\n\n😀"
BROKEN = OpenAIError(500, "The answer was broken off by the server.")


def answer(path: str, body: bytes) -> bytes:
    """What the gateway would say: an answer of two tokens; a user called "broken" gets an error after the first."""
    is_chat = path == "/v1/chat/completions"
    request = (ChatRequest if is_chat else CompletionRequest).parse(body)
    if not request.stream:
        whole = ChatAnswer(request, "i", 7) if isinstance(request, ChatRequest) else CompletionAnswer(request, "i", 7)
        whole.add(0, [FIRST, LAST])
        return json.dumps(whole.body()).encode()
    stream = ChatStream(request, "i", 7) if isinstance(request, ChatRequest) else CompletionStream(request, "i", 7)
    chunks = [*stream.start(0), sse.KEEP_ALIVE, *stream.events(0, [FIRST])]
    rest = [sse.event(BROKEN.body())] if request.user == "broken" else [*stream.events(0, [LAST]), *stream.finish()]
    return b"".join([*chunks, *rest])


def respond(request: Any) -> Any:
    try:
        content = answer(request.url.path, request.content)
    except OpenAIError as error:
        return httpx.Response(error.status, json=error.body())
    kind = sse.CONTENT_TYPE if content.startswith(b"data: ") else "application/json"
    return httpx.Response(200, content=content, headers={"content-type": kind})


@contextmanager
def client() -> Iterator[Any]:
    with httpx.Client(transport=httpx.MockTransport(respond)) as http:
        yield openai.OpenAI(base_url="http://gateway/v1", api_key="none", max_retries=0, http_client=http)


def test_whole_answers() -> None:
    with client() as api:
        chat = api.chat.completions.create(**QUESTION)
        text = api.completions.create(model="m", prompt="hi", echo=True)
    assert (chat.choices[0].message.content, chat.choices[0].finish_reason) == (TEXT, "length")
    assert (text.choices[0].text, text.choices[0].finish_reason) == ("hi" + TEXT, "length")
    assert chat.usage.to_dict() == text.usage.to_dict()
    assert chat.usage.to_dict() == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def test_streams() -> None:
    with client() as api:
        *chat, chat_end = api.chat.completions.create(**QUESTION, **WITH_USAGE)
        *text, text_end = api.completions.create(model="m", prompt="hi", **WITH_USAGE)
    assert chat[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chat) == TEXT
    assert "".join(chunk.choices[0].text for chunk in text) == TEXT
    assert [chunk.choices[0].finish_reason for chunk in (*chat[-2:], *text)] == [None, "length", None, "length"]
    assert (chat_end.choices, text_end.choices) == ([], [])
    assert (chat_end.usage.total_tokens, text_end.usage.total_tokens) == (5, 5)


def test_the_library_says_what_was_wrong() -> None:
    with client() as api, pytest.raises(openai.BadRequestError) as caught:
        api.chat.completions.create(**QUESTION, temperature=-1, stream=True)
    assert (caught.value.param, caught.value.code, caught.value.type) == (
        "temperature",
        "invalid_value",
        "invalid_request_error",
    )


def test_the_library_raises_an_error_in_a_stream() -> None:
    with client() as api:
        stream = iter(api.chat.completions.create(**QUESTION, stream=True, user="broken"))
        assert [next(stream).choices[0].delta.content for _ in range(2)] == ["", "a\u2028\n\n"]
        with pytest.raises(openai.APIError, match=r"^The answer was broken off by the server\.$"):
            next(stream)
