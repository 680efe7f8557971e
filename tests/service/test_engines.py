"""What every engine that computes must keep, through a real Triton: the same tests against each, by one parameter."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tritonclient.utils import InferenceServerException

from engine.capabilities import REFUSED

from . import leaving
from .engines import ENGINES, serve_with
from .gateway import Gateway, begin, beside, chat, complete, refusal, send, text_of
from .grpc_client import Stream
from .grpc_client import text_of as joined
from .serving import Server, generate, generate_stream, wait_until
from .successor_model import CHAT_ANSWER, LOGPROBS, write_lora, write_successor_model

pytestmark = pytest.mark.service

MODEL = "toy"
SLOTS = 2
FREED_WITHIN_S = 2.0
OPTIONS = ("--max-num-seqs", str(SLOTS), "--set", "heartbeat_s=0.3")
ENDLESS = {"text_input": "A", "ignore_eos": True}

Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_successor_model(tmp_path_factory.mktemp("models") / MODEL)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(engine: str, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(engine)
    lora = json.dumps({"n-for-b": str(write_lora(folder / "lora", ("a", "m")))})
    loras = ("--set", f"lora_modules={lora}") if engine == "vllm" else ()
    with serve_with(engine, folder, model, *OPTIONS, *loras) as running:
        yield running


@pytest.fixture
def front(server: Server) -> Gateway:
    return beside(server)


@pytest.fixture(params=["http", "grpc"])
def ask(request: pytest.FixtureRequest, server: Server) -> Ask:
    """All responses to a request that streams."""
    if request.param == "http":
        return lambda **inputs: list(generate_stream(server, MODEL, **inputs))
    return lambda **inputs: list(Stream(server.grpc, MODEL, **inputs))


ANSWERS: list[tuple[dict[str, Any], str, str, int]] = [
    ({"text_input": "w"}, "xyz", "stop", 4),
    ({"text_input": "hellow", "max_tokens": 2}, "xy", "length", 2),
    ({"text_input": "w", "max_tokens": 4}, "xyz", "stop", 4),
    ({"text_input": "w", "max_tokens": 3}, "xyz", "length", 3),
    ({"text_input": "a", "stop_words": ["de"]}, "bc", "stop", 4),
    ({"text_input": "a", "stop_words": ["de"], "include_stop_str_in_output": True}, "bcde", "stop", 4),
    ({"text_input": "a", "stop_words": ["d"]}, "bc", "stop", 3),
    ({"text_input": "w", "stop_words": ["zz", ""]}, "xyz", "stop", 4),
    ({"text_input": "a", "stop_token_ids": [ord("d")]}, "bc", "stop", 3),
    ({"text_input": "a", "end_id": ord("d")}, "bc", "stop", 3),
    ({"text_input": "x", "ignore_eos": True, "max_tokens": 5}, "yzab", "length", 5),
    (
        {"text_input": "x", "ignore_eos": True, "max_tokens": 3, "skip_special_tokens": False},
        "yz<|im_end|>",
        "length",
        3,
    ),
    ({"text_input": "y", "min_tokens": 3, "max_tokens": 5}, "zZABC", "length", 5),
    ({"text_input": "a", "stop_words": ["c"], "min_tokens": 2, "max_tokens": 4}, "bcde", "length", 4),
    ({"input_ids": [0x80], "max_tokens": 8}, "😀😀", "length", 8),
    ({"input_ids": [0x80], "max_tokens": 6}, "😀\ufffd", "length", 6),
    ({"input_ids": [97, 300], "max_tokens": 2}, "ab", "length", 2),
    ({"text_input": "0", "max_tokens": 4}, "1010", "length", 4),
    ({"text_input": "0", "max_tokens": 4, "presence_penalty": 2.0}, "1057", "length", 4),
    ({"text_input": "0", "max_tokens": 4, "frequency_penalty": 2.0}, "1057", "length", 4),
    ({"text_input": "0", "max_tokens": 2, "repetition_penalty": 2.0}, "16", "length", 2),
    ({"text_input": "0", "max_tokens": 6, "temperature": 0.0, "top_p": 0.5, "min_p": 0.5}, "101010", "length", 6),
    ({"text_input": "0", "max_tokens": 6, "temperature": 1.0, "top_k": 1}, "101010", "length", 6),
    ({"text_input": "0", "max_tokens": 6, "temperature": 1.0, "top_p": 0.05}, "101010", "length", 6),
    ({"text_input": "0", "max_tokens": 6, "temperature": 1.0, "min_p": 0.9}, "101010", "length", 6),
    ({"text_input": "A" * 1000, "max_tokens": 2}, "BC", "length", 2),
]


@pytest.mark.parametrize(("inputs", "text", "reason", "tokens"), ANSWERS)
def test_answer_is_the_same_on_every_front(
    server: Server, ask: Ask, inputs: dict[str, Any], text: str, reason: str, tokens: int
) -> None:
    prompt = inputs.get("input_ids", inputs.get("text_input"))
    end = {"finish_reason": reason, "num_input_tokens": len(prompt), "num_output_tokens": tokens}
    streamed = ask(**inputs)
    assert joined(streamed) == text
    assert {name: streamed[-1][name] for name in end} == end
    whole = generate(server, MODEL, **inputs)
    assert {name: whole[name] for name in (*end, "text_output")} == {**end, "text_output": text}


FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "bad_words": ({"text_input": "a", "max_tokens": 5, "bad_words": ["de", "B"]}, "bcdZA"),
    "return_log_probs": ({"text_input": "a", "max_tokens": 3, "return_log_probs": True}, "bcd"),
    "guided_decoding_guide_type": (
        {"text_input": "A", "guided_decoding_guide_type": "regex", "guided_decoding_guide": "[B-D]{2}"},
        "BC",
    ),
    "temperature": ({"text_input": "0", "max_tokens": 3, "temperature": 0.001}, "101"),
}


@pytest.mark.parametrize("field", FIELDS)
def test_field_is_honoured_or_refused_by_name_and_reason(server: Server, engine: str, ask: Ask, field: str) -> None:
    inputs, text = FIELDS[field]
    if field not in REFUSED[engine]:
        assert joined(ask(**inputs)) == generate(server, MODEL, **inputs)["text_output"] == text
        return
    refused = f"{field}: the {engine} engine {REFUSED[engine][field]}"
    for stream in (True, False):
        assert refused_with(ask, **inputs, stream=stream) == f"in ensemble '{MODEL}', {refused}"


def refused_with(ask: Ask, **inputs: Any) -> str:
    """The error that comes before the first response."""
    try:
        (answer,) = ask(**inputs)
    except InferenceServerException as error:
        return str(error.message())
    return str(answer["error"])


def is_refused(ask: Ask, engine: str, field: str, inputs: dict[str, Any]) -> bool:
    """Whether the engine refuses this field; then it must have done so."""
    if field not in REFUSED[engine]:
        return False
    assert f"{field}: the {engine} engine " in refused_with(ask, **inputs)
    return True


def test_log_probabilities_are_the_models(server: Server, engine: str, ask: Ask) -> None:
    inputs = {"text_input": "a", "max_tokens": 3, "return_log_probs": True, "top_logprobs": 2}
    if is_refused(ask, engine, "return_log_probs", inputs):
        return
    entries = [entry for response in ask(**inputs) for entry in json.loads(response.get("logprobs", "[]"))]
    assert [entry["token"] for entry in entries] == ["b", "c", "d"]
    for entry in entries:
        likeliest, second = entry["top_logprobs"]
        assert (likeliest["token"], second["token"]) == (entry["token"], "Z")
        found = [entry["logprob"], likeliest["logprob"], second["logprob"]]
        assert found == pytest.approx([LOGPROBS[0], *LOGPROBS], abs=1e-3)


GUIDES = [
    ("regex", "[B-D]{3}", "BCD"),
    ("choice", '["Bond", "Zulu"]', "Bond"),
    ("ebnf_grammar", 'root ::= "B" [A-Z] "!"', "BC!"),
    ("json_schema", '{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}', '{"a":1}'),
    ("json", "", "{}"),
]


@pytest.mark.parametrize(("guide_type", "guide", "text"), GUIDES)
def test_guide_is_kept_to(server: Server, engine: str, ask: Ask, guide_type: str, guide: str, text: str) -> None:
    guided = {"guided_decoding_guide_type": guide_type, **({"guided_decoding_guide": guide} if guide else {})}
    inputs = {"text_input": "A", "max_tokens": 40, **guided}
    if is_refused(ask, engine, "guided_decoding_guide_type", inputs):
        return
    answer = generate(server, MODEL, **inputs)
    assert joined(ask(**inputs)) == answer["text_output"]
    if guide_type.startswith("json"):
        start = answer["text_output"].lstrip()
        assert start.startswith(text[0])
        if answer["finish_reason"] == "stop":
            json.loads(answer["text_output"])
    else:
        assert (answer["text_output"], answer["finish_reason"]) == (text, "stop")


def test_guide_that_is_no_grammar_is_refused_by_name(server: Server, engine: str, ask: Ask) -> None:
    inputs = {"text_input": "A", "guided_decoding_guide_type": "regex", "guided_decoding_guide": "[B-"}
    if is_refused(ask, engine, "guided_decoding_guide_type", inputs):
        return
    for stream in (True, False):
        assert "guided_decoding_guide: the vllm engine refused" in refused_with(ask, **inputs, stream=stream)
    assert joined(ask(text_input="w")) == "xyz"


def test_lora_adapter_answers_when_it_is_named(server: Server, engine: str, ask: Ask) -> None:
    if is_refused(ask, engine, "lora_name", {"text_input": "a", "lora_name": "n-for-b"}):
        return
    assert joined(ask(text_input="a", max_tokens=1, lora_name="n-for-b")) == "n"
    assert joined(ask(text_input="a", max_tokens=1)) == "b"
    assert "lora_name: got 'nobody', known are n-for-b" in refused_with(ask, text_input="a", lora_name="nobody")


def test_lora_adapter_is_a_model_at_the_gateway(front: Gateway, engine: str) -> None:
    listed = {model["id"]: model.get("parent") for model in send(front, "/v1/models").json["data"]}
    if "lora_name" in REFUSED[engine]:
        assert listed == {MODEL: None}
        return
    assert listed == {MODEL: None, "n-for-b": MODEL}
    for stream in (True, False):
        assert text_of(complete(front, "a", model="n-for-b", max_tokens=1, stream=stream)) == "n"
        assert text_of(complete(front, "a", max_tokens=1, stream=stream)) == "b"


def test_seed_repeats_an_answer(server: Server, engine: str) -> None:
    """Beside other requests too, but for OpenVINO, which draws the numbers of all requests from one source."""

    def random_answer(seed: int) -> str:
        inputs = {"text_input": "0", "max_tokens": 32, "temperature": 2.0, "seed": seed, "ignore_eos": True}
        return str(generate(server, MODEL, **inputs)["text_output"])

    seeds = [3, 2**32, 2**63 + 7, 2**64 - 1]
    alone = [random_answer(seed) for seed in seeds]
    assert len(set(alone)) == len(seeds)
    with ThreadPoolExecutor(1 if engine == "openvino" else SLOTS) as pool:
        assert list(pool.map(random_answer, seeds)) == alone


def test_many_at_once_each_get_their_own_answer(server: Server) -> None:
    def answer(number: int) -> tuple[str, int]:
        end = list(generate_stream(server, MODEL, text_input="a" * 9 + chr(97 + number)))
        return joined(end), end[-1]["num_output_tokens"]

    alphabet = "abcdefghijklmnopqrstuvwxyz"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(answer, range(26)))
    assert answers == [(alphabet[number + 1 :], 26 - number) for number in range(26)]
    wait_until(lambda: server.run.live_streams() == 0, 5)


@pytest.mark.parametrize("leave", leaving.LEAVERS)
def test_client_that_leaves_frees_its_slot_running_and_queued(server: Server, leave: leaving.Leaver) -> None:
    running = [leave(server, MODEL, ENDLESS) for _ in range(SLOTS)]
    wait_until(lambda: server.run.live_streams() == SLOTS, 5)
    queued = leave(server, MODEL, ENDLESS)
    wait_until(lambda: server.run.live_streams() == SLOTS + 1, 5)
    time.sleep(0.5)
    queued()
    wait_until(lambda: server.run.live_streams() == SLOTS, FREED_WITHIN_S)
    for end in running:
        end()
    left_s = time.monotonic()
    assert generate(server, MODEL, text_input="w")["text_output"] == "xyz"
    assert time.monotonic() - left_s < FREED_WITHIN_S
    wait_until(lambda: server.run.live_streams() == 0, FREED_WITHIN_S)


def test_stop_by_request_id_ends_the_answer_and_spares_others(server: Server) -> None:
    running = Stream(server.grpc, MODEL, "mine", **ENDLESS)
    next(iter(running))
    other = Stream(server.grpc, MODEL, "other", text_input="0", max_tokens=300)
    assert list(Stream(server.grpc, f"{MODEL}_engine", "mine", stop=True)) == []
    assert joined(list(other)) == "10" * 150
    assert list(running)[-1]["finish_reason"] == "abort"
    wait_until(lambda: server.run.live_streams() == 0, 5)


@pytest.mark.parametrize("stream", [True, False])
def test_client_that_leaves_the_gateway_frees_its_slot(server: Server, front: Gateway, stream: bool) -> None:
    with closing(begin(front, stream, prompt="A", max_tokens=20_000)):
        wait_until(lambda: server.run.live_streams() == 1, 5)
        time.sleep(0.3)
    wait_until(lambda: server.run.live_streams() == 0, FREED_WITHIN_S)


@pytest.mark.parametrize("stream", [True, False])
def test_gateway_answers(front: Gateway, stream: bool) -> None:
    assert text_of(chat(front, "Hi", stream=stream)) == CHAT_ANSWER
    assert text_of(complete(front, "a", stop=["de"], stream=stream)) == "bc"
    assert text_of(complete(front, ["x", "w"], stream=stream, n=2), 3) == "xyz"


@pytest.mark.parametrize("stream", [True, False])
def test_gateway_names_the_clients_field_in_what_an_engine_refuses(front: Gateway, engine: str, stream: bool) -> None:
    reply = chat(front, "Hi", response_format={"type": "json_object"}, max_tokens=5, stream=stream)
    if "guided_decoding_guide_type" in REFUSED[engine]:
        assert refusal(reply)[0] == "response_format"
    else:
        assert reply.status == 200


def test_gateway_gives_log_probabilities(front: Gateway, engine: str) -> None:
    reply = complete(front, "a", max_tokens=2, logprobs=1)
    if "return_log_probs" in REFUSED[engine]:
        assert refusal(reply)[0] == "logprobs"
        return
    logprobs = reply.json["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["b", "c"]
    assert logprobs["token_logprobs"] == pytest.approx([LOGPROBS[0]] * 2, abs=1e-3)
    assert all(math.isfinite(value) for top in logprobs["top_logprobs"] for value in top.values())


def test_request_larger_than_the_context_is_refused(ask: Ask) -> None:
    assert "allowed: 32767" in refused_with(ask, text_input="A" * 32768)
    assert "max_tokens: got 32768, allowed: 32767" in refused_with(ask, text_input="A", max_tokens=32768)
