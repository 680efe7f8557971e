"""What is there beside the answers: request ids, health, metrics, and errors for everything else."""

from __future__ import annotations

import http.client
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from .gateway import CHAT, COMPLETIONS, Gateway, Reply, complete, refusal, send, text_of
from .serving import HOST

pytestmark = pytest.mark.service


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
    for path in ("/", "/does-not-exist", "/v1/chat"):
        assert (send(front, path).status, send(front, path).error["code"]) == (404, "not_found")
    for path in ("/v1/embeddings", "/v1/responses", "/v2/models/toy/generate"):
        assert (send(front, path, {}).status, send(front, path, {}).error["code"]) == (404, "not_found")
    for path in ("/v1/models", "/v1/models/toy", "/v1/models/toy/load", "/v1/models/toy/unload"):
        assert (send(front, path, {}).status, send(front, path, {}).error["code"]) == (405, "method_not_allowed")
    assert send(front, CHAT).status == 405


@pytest.mark.parametrize("length", [b"ten", b"-1", b"1e3", b"2\r\ncontent-length: 3"])
def test_a_length_that_is_no_number_is_a_400_and_ends_the_connection(front: Gateway, length: bytes) -> None:
    with socket.create_connection((HOST, front.port), timeout=5) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %s\r\n\r\n{}" % length)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["type"] == "invalid_request_error"
