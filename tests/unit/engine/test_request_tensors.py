"""Engine requests from tensors."""

from __future__ import annotations

import numpy as np
import pytest

from engine.adapter import EngineRequest, RefusedError
from engine.request_tensors import engine_request, word_sequences
from preprocess.word_lists import word_list_tensor


def test_every_tensor_becomes_its_field() -> None:
    tensors = {
        "input_ids": np.array([[5, 6]], np.int32),
        "request_output_len": np.array([[7]], np.int32),
        "min_tokens": np.array([[2]], np.int32),
        "end_id": np.array([[9]], np.int32),
        "stop_words_list": np.array([[[1, 2, 3], [2, 3, -1]]], np.int32),
        "bad_words_list": np.array([[[8], [1]]], np.int32),
        "temperature": np.array([[0.5]], np.float32),
        "runtime_top_k": np.array([[40]], np.int32),
        "runtime_top_p": np.array([[0.25]], np.float32),
        "min_p": np.array([[0.125]], np.float32),
        "repetition_penalty": np.array([[1.5]], np.float32),
        "presence_penalty": np.array([[-1.0]], np.float32),
        "frequency_penalty": np.array([[2.0]], np.float32),
        "seed": np.array([[2**64 - 1]], np.uint64),
        "return_log_probs": np.array([[True]]),
        "top_logprobs": np.array([[5]], np.int32),
        "guided_decoding_guide_type": np.array([[b"choice"]], np.object_),
        "guided_decoding_guide": np.array([['["é"]'.encode()]], np.object_),
        "lora_name": np.array([[b"tuned"]], np.object_),
    }
    assert engine_request(3, tensors.get) == EngineRequest(
        key=3,
        prompt_ids=(5, 6),
        max_tokens=7,
        min_tokens=2,
        end_ids=(9,),
        stop_sequences=((1, 2), (3,)),
        bad_sequences=((8,),),
        temperature=0.5,
        top_k=40,
        top_p=0.25,
        min_p=0.125,
        repetition_penalty=1.5,
        presence_penalty=-1.0,
        frequency_penalty=2.0,
        seed=2**64 - 1,
        top_logprobs=5,
        guide_type="choice",
        guide='["é"]',
        lora_name="tuned",
    )


def test_what_was_not_asked_for_is_off() -> None:
    request = engine_request(1, {"input_ids": np.array([[5]], np.int32)}.get)
    assert (request.top_logprobs, request.guide_type, request.guide, request.lora_name) == (None, "", "", "")


@pytest.mark.parametrize(("asked", "top", "count"), [(True, None, 0), (True, 3, 3), (False, 3, None), (False, 0, None)])
def test_the_likeliest_tokens_come_with_the_log_probs_only(asked: bool, top: int | None, count: int | None) -> None:
    tensors = {"input_ids": np.array([[5]], np.int32), "return_log_probs": np.array([[asked]])}
    if top is not None:
        tensors["top_logprobs"] = np.array([[top]], np.int32)
    assert engine_request(1, tensors.get).top_logprobs == count


def test_no_end_id_is_minus_one() -> None:
    tensors = {"input_ids": np.array([[5]], np.int32), "end_id": np.array([[-1]], np.int32)}
    assert engine_request(1, tensors.get).end_ids == ()


@pytest.mark.parametrize("prompt", [None, np.zeros((1, 0), np.int32)])
def test_prompt_without_ids_is_refused(prompt: object) -> None:
    with pytest.raises(RefusedError, match="input_ids: expected at least one token id"):
        engine_request(1, {"input_ids": prompt}.get)


@pytest.mark.parametrize("words", [[], [(1,)], [(1, 2), (3,)], [(4, 5, 6), (7, 8), (9,)]])
def test_word_lists_come_back_as_preprocess_wrote_them(words: list[tuple[int, ...]]) -> None:
    assert word_sequences(word_list_tensor(words)[np.newaxis]) == tuple(words)
