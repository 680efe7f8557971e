"""Each stage's model.py, assembled and loaded as Triton loads it, against a strict stand-in for Triton."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

from ensemble_repo.assemble import assemble
from tests.fake_triton import InferenceRequest, TritonError, int32, load_stage, text
from tests.toy_tokenizers import IM_END, byte_level_tokenizer


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITONE_RUN_DIR", str(tmp_path))
    tokenizer_dir = tmp_path / "tokenizer"
    tokenizer_dir.mkdir()
    byte_level_tokenizer().save(str(tokenizer_dir / "tokenizer.json"))
    (tokenizer_dir / "config.json").write_text(json.dumps({"eos_token_id": IM_END}))
    (tokenizer_dir / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    settings = {"engine": "scripted", "max_model_len": 64, "vocab_size": 320, "tokens_per_second": 5000.0}
    settings |= {"max_streams": 2, "script_file": str(tmp_path / "scripts.json")}
    scripts: list[dict[str, Any]] = [
        {"prompt_ids": [1], "steps": [[97, 4294967296, 98, -1, 300]]},
        {"prompt_ids": [2], "steps": [], "fault": "raise"},
        {"prompt_ids": [3], "steps": [], "fault": "stall"},
        {"prompt_ids": [4], "steps": [[9, 10]]},
    ]
    (tmp_path / "scripts.json").write_text(json.dumps(scripts))
    assemble(tmp_path / "repository", "m", tokenizer_dir, settings)
    return tmp_path / "repository"


def start(repository: Path, stage: str) -> Any:
    """The stage's initialized TritonPythonModel."""
    config = text_format.Parse((repository / f"m_{stage}" / "config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    model = load_stage(repository, stage).TritonPythonModel()
    model.initialize(
        {
            "model_name": f"m_{stage}",
            "model_config": json_format.MessageToJson(config, preserving_proto_field_name=True),
        }
    )
    return model


@pytest.fixture
def engine(repository: Path) -> Iterator[Any]:
    model = start(repository, "engine")
    yield model
    model.finalize()


def wait_closed(request: InferenceRequest) -> None:
    until_s = time.monotonic() + 5
    while not request.sender.is_closed and time.monotonic() < until_s:
        time.sleep(0.001)
    assert request.sender.is_closed


def prompt(*ids: int, request_id: str = "", max_tokens: int = 8) -> InferenceRequest:
    return InferenceRequest(request_id, input_ids=int32(*ids), request_output_len=int32(max_tokens))


def test_preprocess_answers_each_request_of_a_batch_and_one_bad_one_fails_alone(repository: Path) -> None:
    model = start(repository, "preprocess")
    good = InferenceRequest(text_input=text("hi"), max_tokens=int32(5), stop_words=text("x"))
    bad = InferenceRequest(text_input=text("hi"), max_tokens=int32(0))
    first, second, third = model.execute([good, bad, good])
    assert second.error().code() == TritonError.INVALID_ARG
    assert second.error().message() == "max_tokens: got 0, must be at least 1"
    for response in (first, third):
        values = response.values()
        assert (values["input_ids"], values["request_output_len"], values["end_id"]) == ([104, 105], [5], [IM_END])
        assert values["stop_words_list"] == [[120], [1]]
        assert json.loads(values["stream_context"][0])["stop"] == ["x"]


def test_preprocess_sends_more_end_ids_as_stop_words(repository: Path) -> None:
    model = start(repository, "preprocess")
    (response,) = model.execute([InferenceRequest(text_input=text("hi"), stop_token_ids=int32(7, 9))])
    values = response.values()
    assert (values["end_id"], values["stop_words_list"]) == ([IM_END], [[7, 9], [1, 2]])


def test_preprocess_sends_what_few_ask_for_only_when_asked(repository: Path) -> None:
    model = start(repository, "preprocess")
    plain = InferenceRequest(text_input=text("hi"))
    asked = InferenceRequest(
        text_input=text("hi"),
        return_log_probs=np.array([[True]]),
        top_logprobs=int32(3),
        guided_decoding_guide_type=text("choice"),
        guided_decoding_guide=text('["é", ""]'),
        lora_name=text("tuned"),
    )
    without, values = [response.values() for response in model.execute([plain, asked])]
    assert {name: values[name] for name in values.keys() - without.keys()} == {
        "return_log_probs": [True],
        "top_logprobs": [3],
        "guided_decoding_guide_type": [b"choice"],
        "guided_decoding_guide": ['["é", ""]'.encode()],
        "lora_name": [b"tuned"],
    }
    contexts = [json.loads(reply["stream_context"][0])["logprobs"] for reply in (without, values)]
    assert contexts == [False, True]


def test_preprocess_refuses_an_unknown_parameter(repository: Path) -> None:
    model = start(repository, "preprocess")
    (response,) = model.execute([InferenceRequest(parameters='{"max_token": 3}', text_input=text("hi"))])
    assert "max_token: is neither an input nor a known parameter" in response.error().message()


def test_preprocess_failure_of_its_own_has_a_fixed_text_and_spares_the_batch(repository: Path) -> None:
    model = start(repository, "preprocess")
    broken = InferenceRequest(parameters="not JSON", text_input=text("secret"))
    good = InferenceRequest(text_input=text("hi"))
    first, second = model.execute([broken, good])
    assert first.error().code() == TritonError.INTERNAL
    assert first.error().message() == "internal error in the preprocess stage"
    assert second.values()["input_ids"] == [104, 105]


def test_engine_ids_that_fit_no_int32_become_one_that_no_vocabulary_has(engine: Any) -> None:
    request = prompt(1)
    engine.execute([request])
    wait_closed(request)
    values = request.sender.responses[0].values()
    assert values["output_ids"] == [97, 2**31 - 1, 98, -1, 300]
    assert values["finish_reason"] == [b"stop"]
    assert values["stream_key"][2] == 1


CHOSEN = {"output_log_probs": [-0.25, -0.375]}
LIKELIEST = {"top_ids": [7, 8, 7, 8], "top_log_probs": [0.0, -0.125, 0.0, -0.125]}


@pytest.mark.parametrize(("top", "told"), [(None, {}), (0, CHOSEN), (2, CHOSEN | LIKELIEST)])
def test_engine_tells_log_probabilities_only_when_asked(engine: Any, top: int | None, told: dict[str, Any]) -> None:
    asked = {} if top is None else {"return_log_probs": np.array([[True]]), "top_logprobs": int32(top)}
    request = InferenceRequest(input_ids=int32(4), **asked)
    engine.execute([request])
    wait_closed(request)
    values = request.sender.responses[0].values()
    assert values.pop("output_ids") == [9, 10]
    assert {name: value for name, value in values.items() if name not in ("stream_key", "finish_reason")} == told


def test_engine_refuses_by_name_what_this_one_cannot_do(engine: Any) -> None:
    request = InferenceRequest(input_ids=int32(9), guided_decoding_guide_type=text("json"))
    engine.execute([request])
    error = request.sender.responses[0].error()
    assert error.code() == TritonError.INVALID_ARG
    assert error.message().startswith("guided_decoding_guide_type: the scripted engine ")


def test_engine_error_of_one_request(engine: Any) -> None:
    request = prompt(2)
    engine.execute([request])
    wait_closed(request)
    assert request.sender.responses[0].error().message() == "the engine failed: the script told it to"


def test_engine_refuses_what_it_cannot_run(engine: Any) -> None:
    request = InferenceRequest(request_output_len=int32(1))
    engine.execute([request])
    error = request.sender.responses[0].error()
    assert (error.code(), error.message()) == (TritonError.INVALID_ARG, "input_ids: expected at least one token id")


def test_engine_with_a_full_table_is_unavailable(engine: Any) -> None:
    requests = [prompt(3), prompt(3), prompt(3)]
    engine.execute(requests)
    error = requests[2].sender.responses[0].error()
    assert error.code() == TritonError.UNAVAILABLE
    assert not requests[0].sender.is_closed


def test_draining_engine_takes_no_more_requests(engine: Any, tmp_path: Path) -> None:
    running = prompt(3)
    engine.execute([running])
    (tmp_path / "draining").touch()
    late = prompt(3)
    engine.execute([late])
    error = late.sender.responses[0].error()
    assert (error.code(), error.message()) == (TritonError.UNAVAILABLE, "the server is shutting down")
    assert not running.sender.is_closed


def test_stop_ends_the_request_with_its_id(engine: Any) -> None:
    running, other = prompt(3, request_id="a"), prompt(3, request_id="b")
    engine.execute([running, other])
    stop = InferenceRequest("a", stop=np.array([[True]]))
    engine.execute([stop])
    assert stop.sender.is_closed
    assert stop.sender.responses == []
    wait_closed(running)
    assert running.sender.responses[-1].values()["finish_reason"] == [b"abort"]
    assert not other.sender.is_closed


def test_stop_without_an_id_is_refused(engine: Any) -> None:
    stop = InferenceRequest(stop=np.array([[True]]))
    engine.execute([stop])
    assert stop.sender.responses[0].error().code() == TritonError.INVALID_ARG


def test_engine_leaves_no_file_behind(repository: Path) -> None:
    model = start(repository, "engine")
    table = repository.parent / f"streams-{os.getppid()}-m_engine"
    assert table.is_file()
    model.finalize()
    assert not table.exists()


def context(**changes: Any) -> Any:
    fields = {"stop": [], "include_stop": False, "skip_special": True, "stream": True, "end_ids": [IM_END]}
    return text(
        json.dumps(
            {
                **fields,
                "logprobs": False,
                "min_tokens": 0,
                "num_input_tokens": 4,
                "echo_text": "",
                "echo_ids": [],
                **changes,
            }
        )
    )


def chunk(number: int, ids: bytes, **more: Any) -> InferenceRequest:
    key = np.array([[0, 1, number]], np.uint64)
    return InferenceRequest(stream_key=key, output_ids=np.frombuffer(ids, np.uint8).astype(np.int32)[None], **more)


def test_postprocess_streams_deltas(repository: Path, engine: Any) -> None:
    model = start(repository, "postprocess")
    requests = [chunk(1, b"caf\xc3", stream_context=context()), chunk(2, b"\xa9!")]
    model.execute(requests)
    model.finalize()
    assert [request.sender.responses[0].values() for request in requests] == [
        {"text_output": [b"caf"], "num_output_tokens": [4], "num_input_tokens": [4]},
        {"text_output": ["é!".encode()], "num_output_tokens": [6]},
    ]


def test_postprocess_tells_log_probabilities_when_asked(repository: Path, engine: Any) -> None:
    model = start(repository, "postprocess")
    told = {
        "output_log_probs": np.array([[-0.5]], np.float32),
        "top_ids": int32(97, IM_END),
        "top_log_probs": np.array([[-0.25, -np.inf]], np.float32),
    }
    requests = [
        chunk(1, b"", stream_context=context(logprobs=True)),
        chunk(2, b"b", **told),
        chunk(3, b"", finish_reason=text("length")),
    ]
    model.execute(requests)
    model.finalize()
    entries = [json.loads(request.sender.responses[0].values()["logprobs"][0]) for request in requests]
    top = [{"token": "a", "logprob": -0.25, "bytes": [97]}, {"token": "<|im_end|>", "logprob": -9999.0, "bytes": []}]
    assert entries == [[], [{"token": "b", "logprob": -0.5, "bytes": [98], "top_logprobs": top}], []]


def test_postprocess_tells_the_engine_of_a_client_that_left(repository: Path, engine: Any) -> None:
    model = start(repository, "postprocess")
    running = prompt(3)
    engine.execute([running])
    request = chunk(1, b"a", stream_context=context())
    request.has_left = True
    model.execute([request])
    model.finalize()
    (stream,) = engine._pump._streams.values()
    assert engine._table.is_stopped(stream.key)


def test_postprocess_answers_once_without_streaming(repository: Path, engine: Any) -> None:
    model = start(repository, "postprocess")
    requests = [
        chunk(1, b"", stream_context=context(stream=False)),
        chunk(2, b"caf\xc3"),
        chunk(3, b"\xa9!", finish_reason=text("length")),
    ]
    model.execute(requests)
    model.finalize()
    assert all(request.sender.is_closed for request in requests)
    assert requests[0].sender.responses == []
    assert requests[1].sender.responses == []
    assert requests[2].sender.responses[0].values() == {
        "text_output": ["café!".encode()],
        "num_output_tokens": [6],
        "finish_reason": [b"length"],
        "num_input_tokens": [4],
    }


def test_postprocess_failure_of_its_own_has_a_fixed_text_and_spares_the_others(repository: Path, engine: Any) -> None:
    model = start(repository, "postprocess")
    lost, good = chunk(7, b"secret"), chunk(1, b"ok", stream_context=context())
    model.execute([lost, good])
    model.finalize()
    assert lost.sender.responses[0].error().message() == "internal error in the postprocess stage"
    assert good.sender.responses[0].values()["text_output"] == [b"ok"]
