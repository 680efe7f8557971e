"""The bundled model on OpenVINO, through a real Triton: what the README promises, and what an engine must keep."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tritonclient.utils import InferenceServerException

from engine.openvino_adapter import without_gil
from tritone.bundled_model import bundled_model
from tritone.model_folder import describe_model

from .bare_openvino import add, bare_ids, load
from .grpc_client import Stream, text_of
from .serving import Server, generate, generate_stream, serve, wait_until

pytestmark = pytest.mark.service

MODEL = "smollm2"
QUESTION = json.dumps([{"role": "user", "content": "What is the capital of France?"}])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = ("--max-num-seqs", "4", "--max-model-len", "1024", "--set", "heartbeat_s=0.3")
    with serve(tmp_path_factory.mktemp("openvino"), None, *options, engine="openvino") as running:
        yield running


def test_capital_of_france(server: Server) -> None:
    answer = generate(server, MODEL, messages=QUESTION)
    assert answer["text_output"] == "The capital of France is Paris."
    assert (answer["finish_reason"], answer["num_input_tokens"], answer["num_output_tokens"]) == ("stop", 37, 8)


def test_text_streams_and_is_the_same_whole(server: Server) -> None:
    inputs = {"text_input": "The capital of France is", "max_tokens": 16}
    events = list(generate_stream(server, MODEL, **inputs))
    assert len(events) > 1
    whole = generate(server, MODEL, **inputs)
    assert text_of(events) == whole["text_output"] == text_of(list(Stream(server.grpc, MODEL, **inputs)))
    assert (whole["finish_reason"], whole["num_input_tokens"], whole["num_output_tokens"]) == ("length", 5, 16)


def make_first_token(folder: Path, prompt: Sequence[int], is_stepping: threading.Event) -> None:
    pipeline = load(describe_model(folder).path, {})
    handle = add(pipeline, prompt, 1)
    step = without_gil(pipeline)
    is_stepping.set()
    while not handle.can_read():
        step()


def test_ids_are_those_of_the_bare_engine(server: Server) -> None:
    """Greedy, one at a time: what the ensemble adds changes no token."""
    folder = bundled_model()
    prompt = (504, 3575, 282, 4649, 314)
    # OpenVINO leaves a freed signal stack to the thread that ends a pipeline: in the main one the next signal crashes.
    with ThreadPoolExecutor(1) as thread:
        precision = {"KV_CACHE_PRECISION": "f16"}
        ids = thread.submit(bare_ids, describe_model(folder).path, prompt, 24, precision).result()
    expected = Tokenizer.from_file(str(folder / "tokenizer.json")).decode(ids, skip_special_tokens=True)
    answer = generate(server, MODEL, input_ids=list(prompt), max_tokens=24, ignore_eos=True)
    assert answer["text_output"] == expected


def test_a_step_leaves_the_interpreter_to_other_threads() -> None:
    """A long prompt is one step of a good while: what sends chunks must not stand still meanwhile."""
    is_stepping = threading.Event()
    prompt = range(100, 1124)
    with ThreadPoolExecutor(1) as thread:  # see above
        made = thread.submit(make_first_token, bundled_model(), prompt, is_stepping)
        is_stepping.wait()
        ticks = 0
        while not made.done():
            time.sleep(0.001)
            ticks += 1
    made.result()
    assert ticks > 20


def test_seed_repeats_a_random_answer(server: Server) -> None:
    def ask(seed: int) -> str:
        inputs = {"text_input": "Once upon a time", "max_tokens": 24, "temperature": 1.0, "seed": seed}
        return str(generate(server, MODEL, **inputs)["text_output"])

    assert ask(2**63 + 7) == ask(2**63 + 7)
    assert len({ask(seed) for seed in range(4)}) > 1


def test_stop_word_across_tokens_ends_the_answer(server: Server) -> None:
    answer = generate(server, MODEL, messages=QUESTION, stop_words=["ce is Pa"])
    assert (answer["text_output"], answer["finish_reason"]) == ("The capital of Fran", "stop")


def test_min_tokens_and_ignore_eos_go_on_after_the_end_token(server: Server) -> None:
    answer = generate(server, MODEL, messages=QUESTION, min_tokens=20, max_tokens=30)
    assert answer["num_output_tokens"] >= 20
    answer = generate(server, MODEL, messages=QUESTION, ignore_eos=True, max_tokens=30)
    assert (answer["num_output_tokens"], answer["finish_reason"]) == (30, "length")


def test_penalties_change_the_answer(server: Server) -> None:
    inputs = {"text_input": "a a a a a a", "max_tokens": 16, "ignore_eos": True}
    plain = generate(server, MODEL, **inputs)["text_output"]
    assert generate(server, MODEL, **inputs, repetition_penalty=1.8)["text_output"] != plain


def test_bad_words_are_refused_by_name(server: Server) -> None:
    with pytest.raises(InferenceServerException, match="bad_words: the openvino engine cannot ban words"):
        list(Stream(server.grpc, MODEL, messages=QUESTION, bad_words=["Paris"]))


def test_clients_that_leave_free_their_slots_running_and_queued(server: Server) -> None:
    long = {"text_input": "Count to a thousand: 1, 2, 3,", "ignore_eos": True}
    streams = [Stream(server.grpc, MODEL, **long) for _ in range(7)]  # four run, three wait
    wait_until(lambda: server.run.live_streams() == 7, 10)
    time.sleep(1.0)
    for stream in streams:
        stream.cancel()
    wait_until(lambda: server.run.live_streams() == 0, 5)
    started_s = time.monotonic()
    assert generate(server, MODEL, messages=QUESTION)["text_output"] == "The capital of France is Paris."
    assert time.monotonic() - started_s < 10


def test_many_at_once_each_get_an_answer(server: Server) -> None:
    def ask(number: int) -> int:
        inputs = {"text_input": f"Number {number} is", "max_tokens": 8 + number, "ignore_eos": True}
        return int(list(generate_stream(server, MODEL, **inputs))[-1]["num_output_tokens"])

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(ask, range(12))) == [8 + number for number in range(12)]
    wait_until(lambda: server.run.live_streams() == 0, 5)


def test_request_larger_than_the_context_is_refused_with_both_numbers(server: Server) -> None:
    with pytest.raises(InferenceServerException, match=r"1[0-9]{3}.*1024"):
        list(Stream(server.grpc, MODEL, text_input="word " * 1500))
