"""What the gateway makes of requests that break others: field reports, by number, through a real Triton."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from tests.unit.preprocess.toy_models import PLAIN_CHAT, write_model

from .gateway import CHAT, COMPLETIONS, Gateway, Reply, beside, chat, complete, refusal, send, text_of
from .serving import HOST, serve

pytestmark = pytest.mark.service

STRICT_CHAT = (
    "{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% if m.role == 'user' and not loop.first and messages[loop.index0 - 1].role == 'user' %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}" + PLAIN_CHAT
)
CONTEXT = 64
MODES = [False, True]


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    model = write_model(folder / "toy", chat_template=STRICT_CHAT)
    with serve(folder / "triton", model, "--set", "tokens_per_second=1000") as running:
        yield beside(running)


def raw(front: Gateway, path: str, body: str) -> Reply:
    return send(front, path, body.encode())


@pytest.mark.parametrize("stream", MODES)
@pytest.mark.parametrize("stop", ["", [""], ["", "zz"]])
def test_b17_empty_stop_is_none(front: Gateway, stop: Any, stream: bool) -> None:
    reply = complete(front, "abc", stop=stop, bad_words=[""], stream=stream)
    assert text_of(reply) == "abc"


@pytest.mark.parametrize("stream", MODES)
def test_b19_what_the_template_refuses_is_a_400_with_its_words(front: Gateway, stream: bool) -> None:
    system, user, empty = (
        {"role": role, "content": text} for role, text in (("system", "s"), ("user", "u"), ("assistant", ""))
    )
    assert "System role not supported" in refusal(chat(front, system, user, stream=stream))[1]
    param, message = refusal(chat(front, user, user, stream=stream))
    assert (param, "Conversation roles must alternate" in message) == ("messages", True)
    assert refusal(chat(front, stream=stream))[0] == "messages"
    assert text_of(chat(front, user, empty, user, stream=stream)) == "[user]u"


def tokenized(front: Gateway, *messages: dict[str, Any], **fields: Any) -> str:
    """The prompt that messages become, read back from its ids."""
    reply = send(front, "/tokenize", {"model": "toy", "messages": messages, **fields})
    return str(send(front, "/detokenize", {"model": "toy", "tokens": reply.json["tokens"]}).json["prompt"])


def test_b21_content_null_beside_tool_calls(front: Gateway) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    without = {"role": "assistant", "tool_calls": [call]}
    prompts = [
        tokenized(front, {"role": "user", "content": "q"}, one) for one in (without, {**without, "content": None})
    ]
    assert prompts == ["[user]q<|im_end|>[assistant]<f x=1><|im_end|>[assistant]"] * 2
    param, _ = refusal(chat(front, {"role": "user", "content": None}))
    assert str(param).startswith("messages[0]")


def test_b23_final_message_is_continued_where_it_ends(front: Gateway) -> None:
    user = {"role": "user", "content": "q"}
    for text in ("The capital is ", "", "q"):
        prompt = tokenized(front, user, {"role": "assistant", "content": text}, continue_final_message=True)
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
        param, message = refusal(raw(front, COMPLETIONS, body))
        assert (param, "Error" in message) == (name, False)
    content = '{"model": "toy", "stream": %s, "messages": [{"role": "user", "content": "%s"}]}'
    assert str(refusal(raw(front, CHAT, content % (stream, "\\ud83d")))[0]).startswith("messages")
    assert text_of(raw(front, CHAT, content % (stream, "\\ud83d\\ude00"))) == "[user]😀"


@pytest.mark.parametrize("stream", MODES)
def test_b29_nul_is_a_character_like_others(front: Gateway, stream: bool) -> None:
    assert text_of(complete(front, "he\0llo", stream=stream)) == "he\0llo"
    assert complete(front, "he\0llo").json["usage"]["prompt_tokens"] == 6


@pytest.mark.parametrize("field", ["temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty"])
@pytest.mark.parametrize("stream", ["false", "true"])
def test_b30_no_number_that_is_none(front: Gateway, field: str, stream: str) -> None:
    for value in ("NaN", "Infinity", "-Infinity", "1e999", '"nan"', "-3"):
        body = f'{{"model": "toy", "prompt": "a", "stream": {stream}, "{field}": {value}}}'
        assert refusal(raw(front, COMPLETIONS, body))[0] == field
    for value in ("0", "-0.0", "1e-9", "1e-4"):
        assert complete(front, "a", temperature=json.loads(value), stream=stream == "true").status == 200


def test_b32_ids_outside_the_vocabulary_harm_nobody(front: Gateway) -> None:
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(complete, front, "x" * 30, stream=True)
        for bias in ({"99999": 5}, {"-1": 1}, {"abc": 1}, {"97": 1e9}, {"97": "x"}, {"1": 1}):
            assert refusal(complete(front, "a", logit_bias=bias))[0] == "logit_bias"
        for ids in ([99999], [-1], [320], [97] * 5000):
            param, message = refusal(complete(front, "a", stop_token_ids=ids))
            assert str(param).startswith("stop_token_ids")
        assert "allowed" in message
        assert text_of(beside.result()) == "x" * 30


@pytest.mark.parametrize("stream", MODES)
def test_b34_edges_of_max_tokens(front: Gateway, stream: bool) -> None:
    one = complete(front, "ab", max_tokens=1, stream=stream)
    assert text_of(one) == "a"
    assert one.body.count(b'"finish_reason":"length"' if stream else b'"finish_reason": "length"') == 1
    for value in (0, -1, 2**31 - 1, 2**31, 10**18, 10.0, 10.5, "10", True):
        assert refusal(complete(front, "ab", max_tokens=value, stream=stream))[0] == "max_tokens"
    assert text_of(complete(front, "ab", max_tokens=None, stream=stream)) == "ab"


@pytest.mark.parametrize("stream", MODES)
def test_b35_edges_of_the_context(front: Gateway, stream: bool) -> None:
    for num_prompt, most in ((62, 2), (63, 1), (63, None)):
        reply = complete(front, "x" * num_prompt, max_tokens=most, ignore_eos=True, stream=stream)
        assert len(text_of(reply)) == (most or CONTEXT - num_prompt)
    for num_prompt, most, name in (
        (63, 2, "max_tokens"),
        (64, None, "prompt"),
        (65, None, "prompt"),
        (65, 1, "prompt"),
    ):
        param, message = refusal(complete(front, "x" * num_prompt, max_tokens=most, stream=stream))
        assert (param, "64" in message) == (name, True)
    too_long = complete(front, "x" * 65, stream=stream)
    assert too_long.error["code"] == "context_length_exceeded"
    assert "maximum context length is 64 tokens" in too_long.error["message"]


@pytest.mark.parametrize("prompt", ["", [""], [], [[]], ["a", ""]])
@pytest.mark.parametrize("stream", MODES)
def test_b37_empty_prompt_without_bos(front: Gateway, prompt: Any, stream: bool) -> None:
    assert str(refusal(complete(front, prompt, stream=stream))[0]).startswith("prompt")


@pytest.mark.parametrize("options", [..., {}, None, {"include_usage": False}, {"include_usage": True}])
def test_b39_usage_only_when_asked(front: Gateway, options: Any) -> None:
    fields = {} if options is ... else {"stream_options": options}
    *chunks, done = chat(front, "hi", stream=True, **fields).events
    is_asked = options == {"include_usage": True}
    with_usage = [chunk for chunk in chunks if chunk.get("usage")]
    assert done == "[DONE]"
    assert with_usage == (chunks[-1:] if is_asked else [])
    assert [chunk["choices"] == [] for chunk in chunks] == [False] * (len(chunks) - is_asked) + [True] * is_asked
    if is_asked:
        assert chunks[-1]["usage"] == {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}


def test_b39_stream_options_need_a_stream(front: Gateway) -> None:
    assert refusal(chat(front, "hi", stream_options={"include_usage": True}))[0] == "stream_options"


def test_continuous_usage_counts_up(front: Gateway) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, _ = complete(front, "abcd", stream=True, stream_options=options).events
    made = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert made == sorted(made)
    assert chunks[-1]["usage"] == chunks[-2]["usage"] == {"prompt_tokens": 4, "completion_tokens": 5, "total_tokens": 9}


@pytest.mark.parametrize("stream", MODES)
def test_b41_number_of_answers(front: Gateway, stream: bool) -> None:
    for value in (0, -1, 1_000_000, 17, "2"):
        started_s = time.monotonic()
        assert refusal(complete(front, "a", n=value, stream=stream))[0] == "n"
        assert time.monotonic() - started_s < 1
    assert refusal(complete(front, "a", n=2, best_of=3, stream=stream))[0] == "best_of"
    reply = complete(front, ["ab", "cde"], n=3, seed=5, stream=stream)
    assert [text_of(reply, index) for index in range(6)] == ["ab"] * 3 + ["cde"] * 3
    if stream:
        ends = [choice["index"] for choice in reply.choices if choice["finish_reason"]]
        assert (sorted(ends), reply.events.count("[DONE]")) == (list(range(6)), 1)
    else:
        assert reply.json["usage"] == {"prompt_tokens": 5, "completion_tokens": 21, "total_tokens": 26}


@pytest.mark.parametrize("stream", MODES)
def test_one_refused_prompt_of_many_refuses_the_request(front: Gateway, stream: bool) -> None:
    assert refusal(complete(front, ["ab", "x" * 70, "cd"], stream=stream))[0] == "prompt"


@pytest.mark.parametrize(
    ("prompt", "fields", "text", "reason"),
    [
        ("abc", {"max_tokens": 4}, "abc", "stop"),
        ("abcd", {"max_tokens": 4}, "abcd", "length"),
        ("abcd", {"max_tokens": 4, "stop": "cd"}, "ab", "stop"),
        ("abcde", {"max_tokens": 4, "stop": "de"}, "abcd", "length"),
        ("abcd", {"stop": "cd", "include_stop_str_in_output": True}, "abcd", "stop"),
    ],
)
def test_b44_finish_reason_at_the_boundary(
    front: Gateway, prompt: str, fields: dict[str, Any], text: str, reason: str
) -> None:
    whole, stream = (complete(front, prompt, **fields, stream=stream) for stream in MODES)
    assert text_of(whole) == text_of(stream) == text
    assert whole.json["choices"][0]["finish_reason"] == reason
    assert [one["finish_reason"] for one in stream.choices][-1] == reason
    assert sum(one["finish_reason"] is not None for one in stream.choices) == 1


def test_b45_a_request_id_used_twice_is_echoed_and_mixes_nothing_up(front: Gateway) -> None:
    def ask(letter: str) -> Reply:
        body = {"model": "toy", "prompt": letter * 30, "stream": True}
        return send(front, COMPLETIONS, body, {"x-request-id": "same"})

    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(ask, "abcd"))
    assert [text_of(reply) for reply in replies] == [letter * 30 for letter in "abcd"]
    assert {reply.headers["x-request-id"] for reply in replies} == {"same"}


@pytest.mark.parametrize("given", ["x" * 129, "a b", "é", "", "a\tb"])
def test_b45_request_ids_that_are_none(front: Gateway, given: str) -> None:
    reply = send(front, COMPLETIONS, {"model": "toy", "prompt": "a"}, {"x-request-id": given})
    assert refusal(reply)[0] == "x-request-id"


def test_b45_a_request_id_of_a_megabyte(front: Gateway) -> None:
    with closing(http.client.HTTPConnection(HOST, front.port, timeout=5)) as connection:
        try:
            connection.request("GET", "/v1/models", headers={"x-request-id": "x" * 2**20})
            assert connection.getresponse().status == 431
        except (BrokenPipeError, ConnectionResetError):  # it hung up before all of it was sent
            pass
    assert complete(front).status == 200


@pytest.mark.parametrize(
    "piece", ["\n\n", "\r\n", "\r", "data: x", "\u2028", "\u2029", "\u0085", "\0", '"', "\\", "😀"]
)
def test_b46_any_text_is_one_line_of_an_event(front: Gateway, piece: str) -> None:
    reply = complete(front, f"a{piece}b", stream=True)
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert text_of(reply) == f"a{piece}b"


def test_b62_prompt_is_echoed_only_when_asked(front: Gateway) -> None:
    for stream in MODES:
        assert text_of(complete(front, "Hé", stream=stream)) == "Hé"
        reply = complete(front, ["Hé", "x"], echo=True, n=2, stream=stream)
        assert [text_of(reply, index) for index in range(4)] == ["HéHé", "HéHé", "xx", "xx"]
    assert complete(front, "Hé", echo=True).json["usage"]["completion_tokens"] == 4
    assert refusal(complete(front, [1, 2], echo=True))[0] == "echo"


def test_b55_a_prompt_of_megabytes_is_refused_quickly(front: Gateway) -> None:
    started_s = time.monotonic()
    param, message = refusal(complete(front, "x" * 5_000_000))
    assert (param, "allowed" in message) == ("prompt", True)
    assert time.monotonic() - started_s < 5


def test_health_version_and_metrics(front: Gateway) -> None:
    for path in ("/health", "/health/live", "/health/ready", "/version", "/metrics"):
        assert send(front, path).status == 200
        head = send(front, path, method="HEAD")
        assert (head.status, head.body) == (200, b"")
    complete(front)
    text = send(front, "/metrics").body.decode()
    assert re.search(
        r'^tritone:requests_total\{model_name="toy",outcome="ok",route="/v1/completions"\} [1-9]', text, re.M
    )
    assert "nv_inference_request_success" in text


def test_other_paths_and_methods_are_errors_of_the_same_shape(front: Gateway) -> None:
    assert send(front, "/v1/embeddings", {}).error["code"] == "not_found"
    assert (send(front, CHAT).status, send(front, "/v1/models", {}).status) == (405, 405)
