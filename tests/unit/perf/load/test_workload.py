"""Prompts of exact lengths, and the files that prompts come from."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf.load.lengths import parse_lengths
from perf.load.request import LoadRequest
from perf.load.workload import PromptMaker, from_lines, from_sharegpt, from_trace, synthetic
from tests.toy_tokenizers import byte_level_tokenizer
from tritone.errors import TritoneError

OUTPUTS = parse_lengths("7")


def source() -> random.Random:
    return random.Random(1)


@settings(max_examples=30)
@given(st.integers(1, 300), st.integers(0, 50), st.integers(0, 9))
def test_synthetic_text_has_exactly_the_tokens(tokens: int, prefix: int, seed: int) -> None:
    tokenizer = byte_level_tokenizer()
    maker = PromptMaker(tokenizer, prefix, random.Random(seed))
    assert len(tokenizer.encode(maker.text(tokens), add_special_tokens=False).ids) == tokens


def test_prompts_share_the_prefix_and_nothing_else() -> None:
    maker = PromptMaker(byte_level_tokenizer(), 20, source())
    first, second = maker.text(120), maker.text(120)
    assert first[:20] == second[:20]
    assert first[21:60] != second[21:60]


def test_ids_have_exactly_the_tokens() -> None:
    size = 5000

    class Tokenizer:
        def get_vocab_size(self, with_added_tokens: bool) -> int:
            assert not with_added_tokens
            return size

    ids = PromptMaker(Tokenizer(), 0, source()).ids(64)
    assert len(ids) == 64
    assert all(256 <= one < size for one in ids)


def test_a_synthetic_source_repeats_by_its_seed() -> None:
    def some() -> list[LoadRequest]:
        return list(islice(synthetic(str, parse_lengths("5-50"), parse_lengths("1-9"), source()), 20))

    assert some() == some()
    assert {len(request.prompt) for request in some()} == {1, 2}


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_text("one\n\ntwo\n")
    assert list(islice(from_lines(path, OUTPUTS, source()), 3)) == [
        LoadRequest("one", 7),
        LoadRequest("two", 7),
        LoadRequest("one", 7),
    ]


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "one", "max_tokens": 3}\n{"prompt": "two"}\n')
    assert list(islice(from_lines(path, OUTPUTS, source()), 2)) == [LoadRequest("one", 3), LoadRequest("two", 7)]


def test_sharegpt(tmp_path: Path) -> None:
    path = tmp_path / "sharegpt.json"
    turns = [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "Because."}, {"from": "human", "value": "Oh"}]
    path.write_text(json.dumps([{"id": "a", "conversations": turns}, {"id": "b", "conversations": turns[:1]}]))
    assert list(islice(from_sharegpt(path, len, OUTPUTS, source()), 2)) == [LoadRequest("Why?", 8)] * 2
    assert next(from_sharegpt(path, None, OUTPUTS, source())) == LoadRequest("Why?", 7)


def test_trace_is_in_the_order_of_time_and_starts_at_once(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    rows: list[dict[str, Any]] = [
        {"timestamp": 3500, "input_length": 3, "output_length": 2, "hash_ids": [1]},
        {"timestamp": 3000, "prompt": "hello", "output_length": 5},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert from_trace(path, "x".__mul__) == [LoadRequest("hello", 5, 0.0), LoadRequest("xxx", 2, 0.5)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "\n", "has no prompts"),
        ("a.jsonl", "{}\n", 'entry 1: expected a text "prompt"'),
        ("a.jsonl", '{"prompt": "x"}\n[]', "line 2 is not a JSON object"),
        ("a.jsonl", "{", "line 1 is not JSON"),
    ],
)
def test_prompt_files_that_cannot_be_used(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TritoneError, match=message):
        next(from_lines(tmp_path / name, OUTPUTS, source()))


@pytest.mark.parametrize("text", ["{}", "[]", '[{"conversations": [{"value": 1}, {}]}]', "x"])
def test_what_is_not_sharegpt(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(TritoneError, match=r"ShareGPT's format|has no prompts"):
        next(from_sharegpt(tmp_path / "a.json", None, OUTPUTS, source()))


@pytest.mark.parametrize("text", ["", '{"timestamp": 1}', '{"timestamp": "x", "prompt": "a", "output_length": 1}'])
def test_what_is_no_trace(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(TritoneError, match="expected a line for each request"):
        from_trace(tmp_path / "a.jsonl", str)
