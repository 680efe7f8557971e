"""What every front answers to good and bad requests: generate, generate_stream and gRPC, through a real Triton."""

from __future__ import annotations

import http.client
import json
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from .grpc_client import Stream, text_of
from .serving import HOST, Server, generate_stream, serve

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, toy_model: Path) -> Iterator[Server]:
    options = ("--set", "tokens_per_second=500", "--max-model-len", "64")
    with serve(tmp_path_factory.mktemp("fronts"), toy_model, *options) as running:
        yield running


def post(server: Server, endpoint: str, body: str | bytes) -> tuple[int, Any]:
    """Status and JSON of an answer that is one document, or one event."""
    with closing(http.client.HTTPConnection(HOST, server.http_port, timeout=30)) as connection:
        connection.request("POST", f"/v2/models/toy/{endpoint}", body)
        response = connection.getresponse()
        text = response.read().decode()
    return response.status, json.loads(text.strip().removeprefix("data: "))


def grpc_answer(server: Server, **inputs: Any) -> list[dict[str, Any]]:
    return list(Stream(server.grpc, "toy", **inputs))


GOOD: list[tuple[dict[str, Any], str, str, int, int]] = [
    ({"text_input": "Hi"}, "Hi", "stop", 2, 3),
    ({"text_input": "Hello", "max_tokens": 3}, "Hel", "length", 5, 3),
    ({"text_input": "Hello", "max_tokens": 1}, "H", "length", 5, 1),
    ({"text_input": "é😀聪"}, "é😀聪", "stop", 9, 10),
    ({"text_input": "he\0llo"}, "he\0llo", "stop", 6, 7),
    ({"text_input": 'a\n\r"\\\u2028\u0085z'}, 'a\n\r"\\\u2028\u0085z', "stop", 11, 12),
    ({"text_input": "abcdef", "stop_words": ["cd"]}, "ab", "stop", 6, 4),
    ({"text_input": "abcdef", "stop_words": ["cd"], "include_stop_str_in_output": True}, "abcd", "stop", 6, 4),
    ({"text_input": "abcdef", "stop_words": ["", "zz"], "bad_words": [""]}, "abcdef", "stop", 6, 7),
    ({"text_input": "abcdef", "stop_words": ["fg"]}, "abcdef", "stop", 6, 7),
    ({"text_input": "abcdef", "stop_token_ids": [100]}, "abc", "stop", 6, 4),
    ({"text_input": "ab", "ignore_eos": True, "max_tokens": 5}, "ababa", "length", 2, 5),
    ({"text_input": "ab", "min_tokens": 6, "max_tokens": 9}, "abab", "stop", 2, 6),
    ({"text_input": "ab", "end_id": -1, "max_tokens": 3}, "aba", "length", 2, 3),
    ({"input_ids": [104, 257, 105]}, "h", "stop", 3, 2),
    ({"input_ids": [104, 257, 105], "ignore_eos": True, "max_tokens": 3}, "hi", "length", 3, 3),
    ({"input_ids": [104, 256, 105], "skip_special_tokens": False}, "h<|im_start|>i", "stop", 3, 4),
    ({"input_ids": [0xF0, 0x9F, 256, 0x98, 0x80]}, "😀", "stop", 5, 6),
    ({"input_ids": [97, 300, 98]}, "ab", "stop", 3, 4),
    ({"text_input": "x" * 62, "max_tokens": 2}, "xx", "length", 62, 2),
    ({"text_input": "x" * 63, "max_tokens": 1}, "x", "length", 63, 1),
    ({"text_input": "x" * 63}, "x", "length", 63, 1),
    ({"text_input": "Hi", "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}, "Hi", "stop", 2, 3),
]


@pytest.mark.parametrize(("inputs", "text", "reason", "num_input", "num_output"), GOOD)
def test_good_request_is_the_same_on_every_front(
    server: Server, inputs: dict[str, Any], text: str, reason: str, num_input: int, num_output: int
) -> None:
    end = {"finish_reason": reason, "num_input_tokens": num_input, "num_output_tokens": num_output}
    for streamed in (list(generate_stream(server, "toy", **inputs)), grpc_answer(server, **inputs)):
        assert text_of(streamed) == text
        assert {name: streamed[-1][name] for name in end} == end
        assert sum("finish_reason" in response for response in streamed) == 1
    whole = {**inputs, "stream": False}
    status, answer = post(server, "generate", json.dumps(whole))
    answers = [answer, *generate_stream(server, "toy", **whole), *grpc_answer(server, **whole)]
    assert (status, len(answers)) == (200, 3)
    for answer in answers:
        assert {name: answer[name] for name in (*end, "text_output")} == {**end, "text_output": text}


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"max_tokens": 3}, "no prompt: send one of text_input, messages and input_ids"),
    ({"text_input": "a", "input_ids": [1]}, "input_ids: sent together with text_input"),
    ({"text_input": ""}, "the prompt has no tokens"),
    ({"text_input": "x" * 64}, "64"),
    ({"text_input": "x" * 65}, "64"),
    ({"text_input": "x" * 63, "max_tokens": 2}, "max_tokens"),
    ({"text_input": "a", "max_tokens": 0}, "max_tokens: got 0, must be at least 1"),
    ({"text_input": "a", "max_tokens": -1}, "max_tokens: got -1"),
    ({"text_input": "a", "max_tokens": 2**31 - 1}, "max_tokens"),
    ({"text_input": "a", "min_tokens": 9, "max_tokens": 3}, "min_tokens"),
    ({"text_input": "a", "temperature": -1.0}, "temperature"),
    ({"text_input": "a", "top_p": 0.0}, "top_p"),
    ({"text_input": "a", "top_p": 1.5}, "top_p"),
    ({"text_input": "a", "top_k": -2}, "top_k"),
    ({"text_input": "a", "min_p": 2.0}, "min_p"),
    ({"text_input": "a", "repetition_penalty": 0.0}, "repetition_penalty"),
    ({"text_input": "a", "presence_penalty": 3.0}, "presence_penalty"),
    ({"text_input": "a", "beam_width": 2}, "beam_width"),
    ({"text_input": "a", "bad_words": ["x"]}, "bad_words"),
    ({"input_ids": [320]}, "input_ids: has token id 320, allowed: 0 to 319"),
    ({"input_ids": [-1]}, "input_ids: has token id -1"),
    ({"text_input": "a", "stop_token_ids": [99999]}, "99999"),
    ({"text_input": "a", "stop_words": ["x"] * 5000}, "stop_words"),
    ({"messages": "[]"}, "messages"),
    ({"messages": '[{"role":"user","content":"\\ud83d"}]'}, "messages"),
    ({"messages": '[{"role":"user","content":"hi"}]', "tools": "{"}, "tools"),
    ({"text_input": "a", "tools": "[]"}, "tools"),
    ({"text_input": "a", "exclude_input_in_output": False}, "exclude_input_in_output"),
]


@pytest.mark.parametrize(("inputs", "words"), BAD)
def test_bad_request_is_refused_before_the_first_byte_on_every_front(
    server: Server, inputs: dict[str, Any], words: str
) -> None:
    for endpoint in ("generate", "generate_stream"):
        status, answer = post(server, endpoint, json.dumps(inputs))
        assert status == 400, answer
        assert words in answer["error"]
        assert "Traceback" not in answer["error"]
    if inputs:
        with pytest.raises(InferenceServerException) as caught:
            grpc_answer(server, **inputs)
        assert words in caught.value.message()


@pytest.mark.parametrize("stream", [True, False])
def test_b42_error_is_the_same_with_and_without_stream(server: Server, stream: bool) -> None:
    status, answer = post(server, "generate_stream", json.dumps({"text_input": "a", "max_tokens": 0, "stream": stream}))
    assert (status, answer["error"]) == (400, "in ensemble 'toy', max_tokens: got 0, must be at least 1")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e30", "-1e-9"])
@pytest.mark.parametrize("field", ["temperature", "top_p", "min_p", "repetition_penalty", "frequency_penalty"])
def test_b30_no_number_that_is_none_reaches_the_engine(server: Server, field: str, value: str) -> None:
    status, answer = post(server, "generate", f'{{"text_input": "a", "stream": false, "{field}": {value}}}')
    if (field, value) in {("temperature", "1e30"), ("repetition_penalty", "1e30"), ("frequency_penalty", "-1e-9")}:
        assert status == 200  # large or tiny, but a number in range
    else:
        assert status == 400
        assert answer["error"].startswith(f"in ensemble 'toy', {field}: ")


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ('{"text_input": "a", "max_token": 3}', 400, "max_token: is neither an input nor a known parameter"),
        ('{"text_input": "a", "x": {}}', 400, "'x'"),
        ('{"text_input": "a", "parameters": {"max_tokens": 3, "temperature": 1}, "stream": false}', 200, ""),
        ('{"text_input": "a", "parameters": {"max_tokenz": 3}, "stream": false}', 400, "max_tokenz"),
        ('{"text_input": "a", "stop_words": "b", "stream": false}', 200, ""),
        ('{"text_input": "a", "stop_words": "", "bad_words": "", "stream": false}', 200, ""),
        ('{"text_input": "a", "temperature": "0.5"}', 500, "non-number"),
        ('{"text_input": "a", "max_tokens": 8.0}', 500, "signed-integer"),
        ('{"text_input": "a", "max_tokens": "8"}', 500, "signed-integer"),
        ('{"text_input": "a", "stream": 1}', 500, "boolean"),
        ('{"text_input": "\\ud83d"}', 500, "surrogate"),
        ('{"text_input": "\\ud83d\\ude00", "stream": false}', 200, ""),
        ('{"text_input": ["a", "b"]}', 400, "batch-size must be <= 1"),
    ],
)
def test_b47_types_of_json_values(server: Server, body: str, status: int, words: str) -> None:
    """The status 500 is Triton's own, given before any stage is asked."""
    got, answer = post(server, "generate_stream", body)
    assert (got, words in answer.get("error", "")) == (status, True), answer


def test_b48_endpoint_and_stream_flag(server: Server) -> None:
    hi = {"text_input": "Hi"}
    assert post(server, "generate", json.dumps({**hi, "stream": False}))[1]["text_output"] == "Hi"
    for flag in ({}, {"stream": True}):
        assert len(list(generate_stream(server, "toy", **hi, **flag))) > 1
        assert "use generate stream" in post(server, "generate", json.dumps({**hi, **flag}))[1]["error"]
    assert len(list(generate_stream(server, "toy", **hi, stream=False))) == 1
    status, answer = post(server, "infer", json.dumps({"inputs": []}))
    assert (400 <= status < 600, "decoupled" in answer["error"]) == (True, True)


def test_b62_prompt_is_echoed_only_when_asked(server: Server) -> None:
    for exclude, text in ((None, "Hi"), (True, "Hi"), (False, "HiHi")):
        asked = {} if exclude is None else {"exclude_input_in_output": exclude}
        answer = post(server, "generate", json.dumps({"text_input": "Hi", "stream": False, **asked}))[1]
        assert (answer["text_output"], answer["num_output_tokens"]) == (text, 3)


def test_b12_request_id_used_again_gets_its_own_answer(server: Server) -> None:
    for text in ("abcdef", "xyz", "xyz"):
        assert text_of(list(Stream(server.grpc, "toy", "r1", text_input=text))) == text


def test_request_id_in_a_generate_body_is_no_unknown_field(server: Server) -> None:
    body = {"id": "my request", "text_input": "Hi", "stream": False}
    assert post(server, "generate", json.dumps(body))[1]["text_output"] == "Hi"


def test_b45_overlapping_requests_with_one_id_keep_apart(server: Server) -> None:
    first = Stream(server.grpc, "toy", "same", text_input="a" * 30)
    second = Stream(server.grpc, "toy", "same", text_input="b" * 30)
    assert (text_of(list(first)), text_of(list(second))) == ("a" * 30, "b" * 30)


def test_b54_half_closed_stream_gets_its_whole_answer(server: Server) -> None:
    stream = Stream(server.grpc, "toy", text_input="y" * 20)
    stream.half_close()
    assert text_of(list(stream)) == "y" * 20


def raw_infer(server: Server, raw: bytes) -> str:
    """The error for one text_input whose bytes on the wire are `raw`."""
    request = service_pb2.ModelInferRequest(model_name="toy")
    request.inputs.add(name="text_input", datatype="BYTES", shape=[1, 1])
    request.raw_input_contents.append(raw)
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        (reply,) = list(stub.ModelStreamInfer(iter([request]), timeout=30))
    return str(reply.error_message)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (struct.pack("<I", 3) + b"\xff\xfeA", "text_input: is not UTF-8"),
        (struct.pack("<I", 1000) + b"abc", "text_input"),
        (b"\x01", "text_input"),
        (b"", "text_input"),
    ],
)
def test_b29_bytes_that_are_no_text_are_refused(server: Server, raw: bytes, words: str) -> None:
    assert words in raw_infer(server, raw)
    assert text_of(grpc_answer(server, text_input="ok")) == "ok"


def test_b55_large_prompts_are_refused_by_name_and_quickly(server: Server) -> None:
    text = "x" * 5_000_000
    status, answer = post(server, "generate", json.dumps({"text_input": text, "stream": False}))
    assert (status, "text_input" in answer["error"]) == (400, True)
    with pytest.raises(InferenceServerException, match="text_input"):
        grpc_answer(server, text_input=text)


def test_no_prompt_in_the_log(server: Server) -> None:
    secret = "correct horse battery"
    post(server, "generate", json.dumps({"text_input": secret, "stream": False}))
    post(server, "generate", json.dumps({"text_input": secret, "max_tokens": 0, "stream": False}))
    assert secret not in server.log.read_text()
