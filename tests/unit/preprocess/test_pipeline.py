from __future__ import annotations

import json
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from preprocess.errors import InvalidRequest
from preprocess.fields import READERS
from preprocess.guide import FREE, Guide
from preprocess.pipeline import Pipeline, Request
from preprocess.prepared import Prepared
from tests.toy_tokenizers import IM_END
from tests.unit.preprocess.toy_models import PLAIN_CHAT, chat, load, prepared, refusal, request, write_model

GENERATION_FIELDS: dict[str, Any] = {
    "max_tokens": 20,
    "min_tokens": 3,
    "stream": False,
    "stop_words": ["ab", ""],
    "bad_words": ["x"],
    "stop_token_ids": [7],
    "include_stop_str_in_output": True,
    "skip_special_tokens": False,
    "exclude_input_in_output": False,
    "ignore_eos": False,
    "end_id": 9,
    "pad_id": 0,
    "beam_width": 1,
    "temperature": 0.5,
    "top_k": 40,
    "top_p": 0.75,
    "min_p": 0.25,
    "repetition_penalty": 1.5,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "seed": 2**64 - 1,
    "return_log_probs": True,
    "top_logprobs": 20,
    "guided_decoding_guide_type": "regex",
    "guided_decoding_guide": "[a-z]+",
    "lora_name": "tuned",
}
CHAT_FIELDS: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}],
    "tools": [{"name": "t"}],
    "chat_template_kwargs": {"style": "s"},
    "add_generation_prompt": False,
    "continue_final_message": True,
}
ALL_PROMPT_FIELDS: list[dict[str, Any]] = [{"text_input": "Hi"}, {"input_ids": [72, 105]}, CHAT_FIELDS]


@pytest.fixture(scope="module")
def with_tools(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    template = "{{ tools | tojson }}" + PLAIN_CHAT
    return load(write_model(tmp_path_factory.mktemp("with_tools"), chat_template=template), max_model_len=4096)


def context(answer: Prepared) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(answer.stream_context)
    return read


@pytest.fixture(scope="module")
def every_option(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    template = "{{ tools[0].name }}{{ style }}{% for m in messages %}[{{ m.content }}]{% endfor %}"
    return load(write_model(tmp_path_factory.mktemp("every_option"), chat_template=template))


@pytest.mark.parametrize(
    ("prompt", "ids", "echo"),
    [
        (ALL_PROMPT_FIELDS[0], list(b"Hi"), {"echo_text": "Hi", "echo_ids": []}),
        (ALL_PROMPT_FIELDS[1], list(b"Hi"), {"echo_text": "", "echo_ids": [72, 105]}),
        (ALL_PROMPT_FIELDS[2], list(b"ts[Hi][Yo"), {"echo_text": "ts[Hi][Yo", "echo_ids": []}),
    ],
)
def test_every_declared_field_is_honoured(
    every_option: Pipeline, prompt: dict[str, Any], ids: list[int], echo: dict[str, Any]
) -> None:
    answer = prepared(every_option, request(**prompt, **GENERATION_FIELDS))
    expected = Prepared(
        input_ids=answer.input_ids,
        request_output_len=20,
        min_tokens=3,
        end_ids=(9, 7),
        stop_words=[],
        bad_words=[(120,)],
        temperature=0.5,
        top_k=40,
        top_p=0.75,
        min_p=0.25,
        repetition_penalty=1.5,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        seed=2**64 - 1,
        top_logprobs=20,
        guide=Guide("regex", "[a-z]+"),
        lora_name="tuned",
        stream=False,
        stream_context=answer.stream_context,
    )
    # As tuples, which take the same array for equal: from Python 3.13 on, == of dataclasses asks the array itself.
    every_field = attrgetter(*(field.name for field in fields(Prepared)))
    assert every_field(answer) == every_field(expected)
    assert answer.input_ids.tolist() == ids
    assert context(answer) == {
        "stop": ["ab"],
        "include_stop": True,
        "skip_special": False,
        "stream": False,
        "logprobs": True,
        "end_ids": [9, 7],
        "min_tokens": 3,
        "num_input_tokens": len(ids),
        **echo,
    }


def test_no_declared_field_is_missing_above() -> None:
    sent = {name for fields in (*ALL_PROMPT_FIELDS, GENERATION_FIELDS) for name in fields}
    assert sent == set(READERS)


def test_a_silent_client_gets_the_rest_of_the_context_and_the_models_defaults(byte_level: Pipeline) -> None:
    answer = prepared(byte_level, request(text_input="Hi"))
    assert (answer.request_output_len, answer.min_tokens, answer.end_ids) == (62, 0, (IM_END,))
    assert (answer.temperature, answer.top_k, answer.top_p) == (0.0, 0, 1.0)
    assert answer.stream is True
    assert (answer.stop_words, answer.bad_words) == ([], [])
    assert (answer.top_logprobs, answer.guide, answer.lora_name) == (None, FREE, "")
    assert context(answer)["echo_text"] == ""


def test_stream_default_can_be_turned_round(tmp_path: Path) -> None:
    pipeline = load(write_model(tmp_path), stream_default=False)
    assert prepared(pipeline, request(text_input="Hi")).stream is False
    assert prepared(pipeline, request(text_input="Hi", stream=True)).stream is True
    assert context(prepared(pipeline, request(text_input="Hi", exclude_input_in_output=False)))["echo_text"] == "Hi"


def test_end_tokens_of_generation_config_are_all_used(tmp_path: Path) -> None:
    pipeline = load(write_model(tmp_path, generation_config={"eos_token_id": [2, IM_END]}))
    assert prepared(pipeline, request(text_input="Hi")).end_ids == (2, IM_END)
    assert prepared(pipeline, request(text_input="Hi", ignore_eos=True)).end_ids == ()


@pytest.mark.parametrize("word", ["", [""]])
def test_nvidia_clients_send_an_empty_word_for_none(byte_level: Pipeline, word: Any) -> None:
    answer = prepared(byte_level, request(text_input="Hi", stop_words=word, bad_words=word))
    assert (answer.stop_words, answer.bad_words, context(answer)["stop"]) == ([], [], [])


def test_stop_words_are_hints_to_the_engine_unless_it_must_go_on(byte_level: Pipeline) -> None:
    stop: dict[str, Any] = {"stop_words": ["ab", "c"], "bad_words": ["x"]}
    answer = prepared(byte_level, request(text_input="Hi", **stop))
    assert (answer.stop_words, answer.bad_words) == ([(97, 98), (99,)], [(120,)])
    held = prepared(byte_level, request(text_input="Hi", min_tokens=1, **stop))
    assert (held.stop_words, context(held)["stop"]) == ([], ["ab", "c"])


def test_a_text_and_its_chat_count_the_ids_really_sent(with_bos: Pipeline) -> None:
    for one in (request(text_input="<s>Hello"), chat(("user", "Hello"))):
        answer = prepared(with_bos, one)
        assert context(answer)["num_input_tokens"] == len(answer.input_ids)


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "is_served"),
    [
        (62, 1, True),
        (62, 2, True),
        (62, None, True),
        (62, 3, False),
        (63, 1, True),
        (63, 2, False),
        (63, None, True),
        (64, 1, False),
        (64, None, False),
        (65, 1, False),
        (65, 2, False),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_the_context_limit_is_the_same_for_texts_and_ids(
    byte_level: Pipeline, prompt: int, max_tokens: int | None, is_served: bool, stream: bool
) -> None:
    fields: dict[str, Any] = {"stream": stream} if max_tokens is None else {"stream": stream, "max_tokens": max_tokens}
    batch = [request(text_input="x" * prompt, **fields), request(input_ids=[120] * prompt, **fields)]
    answers = byte_level.prepare(batch)
    assert [isinstance(answer, Prepared) for answer in answers] == [is_served, is_served]


def test_an_unknown_parameter_is_refused_by_name(byte_level: Pipeline) -> None:
    text = refusal(byte_level, request({"temprature": 0.5}, text_input="Hi"))
    assert text == "temprature: is neither an input nor a known parameter; did you mean temperature?"
    assert isinstance(prepared(byte_level, request({"priority": 1}, text_input="Hi")), Prepared)


def test_a_text_the_tokenizer_chokes_on_fails_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    words = Tokenizer(models.WordLevel({"a": 0, "known": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    pipeline = load(write_model(tmp_path, words, config={"max_position_embeddings": 8, "eos_token_id": 1}))
    good, bad, also_good = pipeline.prepare([request(text_input=text) for text in ("known", "strange", "a a")])
    assert isinstance(good, Prepared)
    assert isinstance(also_good, Prepared)
    assert also_good.input_ids.tolist() == [0, 0]
    assert str(bad) == "text_input: has text that this model's tokenizer cannot encode"
    assert "strange" not in caplog.text


REQUESTS = st.sampled_from(
    [
        request(text_input="Hello", seed=1),
        request(text_input="é😀", seed=2, stop_words=["ab", "c"], bad_words=["Paris"], max_tokens=4),
        request(input_ids=[1, 2, 3], seed=3, stream=False, exclude_input_in_output=False),
        chat(("user", "Hi"), seed=4, bad_words=["x", "y"]),
        request(text_input=""),
        request(text_input=b"\xff"),
        request(text_input="Hi", max_tokens=0),
        request(text_input="Hi", temperature=float("nan")),
        request(messages=b"[{]"),
        request({"nonsense": 1}, text_input="Hi"),
        chat(("user", None)),
    ]
)


@settings(deadline=None)
@given(batch=st.lists(REQUESTS, max_size=8))
def test_a_batch_gives_each_request_what_it_gets_alone(byte_level: Pipeline, batch: list[Request]) -> None:
    together = byte_level.prepare(batch)
    alone = [byte_level.prepare([one])[0] for one in batch]
    assert len(together) == len(batch)
    for answer, expected in zip(together, alone, strict=True):
        assert comparable(answer) == comparable(expected)


def comparable(answer: Prepared | InvalidRequest) -> object:
    if isinstance(answer, InvalidRequest):
        return str(answer)
    return [
        getattr(answer, name).tolist() if name == "input_ids" else getattr(answer, name) for name in Prepared.__slots__
    ]


CHARACTERS = st.characters()  # lone surrogates among them
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(CHARACTERS, max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "name"]), inner),
    max_leaves=4,
)
PART = st.fixed_dictionaries({"type": st.just("text"), "text": st.text(CHARACTERS, max_size=4)})
CALL = st.fixed_dictionaries({"function": st.fixed_dictionaries({"name": st.just("f")}, optional={"arguments": JSON})})
MESSAGE = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant"]),
        "content": PART.map(lambda part: part["text"]) | st.lists(PART) | JSON,
    },
    optional={"tool_calls": st.lists(CALL, max_size=2) | JSON, "name": JSON},
)


@settings(deadline=None)
@given(messages=st.lists(MESSAGE, max_size=3) | JSON, tools=st.lists(st.dictionaries(st.text(), JSON)) | JSON)
def test_whatever_json_is_sent_is_served_or_refused(with_tools: Pipeline, messages: object, tools: object) -> None:
    texts = {"messages": messages, "tools": tools}
    (answer,) = with_tools.prepare([({name: [json.dumps(value).encode()] for name, value in texts.items()}, {})])
    assert isinstance(answer, Prepared | InvalidRequest)


def test_ids_are_not_shared_with_the_input_tensor(byte_level: Pipeline) -> None:
    tensor = np.array([[1, 2]], np.int32)
    answer = prepared(byte_level, ({"input_ids": tensor}, {}))
    tensor[0, 0] = 9
    assert answer.input_ids.tolist() == [1, 2]
