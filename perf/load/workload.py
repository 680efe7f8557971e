"""Where a load test's prompts and answer lengths come from. Runs on the load host.

Every source is an endless iterator of requests, made from the seed, so that a test can be repeated.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from perf.load.lengths import Lengths
from perf.load.request import LoadRequest
from perf.prompts import TEXT
from tritone.errors import TritoneError

TRIES = 50
FIRST_ID = 256  # special tokens have the lowest ids in most vocabularies

Requests = Iterator[LoadRequest]


class PromptMaker:
    """Synthetic prompts of exact lengths by the tokenizer in a folder (tokenizer.json), no two with the same beginning.

    `shared_prefix` tokens at the start of all prompts are the same, for servers that cache prefixes.
    """

    def __init__(self, tokenizer: Any, shared_prefix: int, random_source: random.Random) -> None:
        self._tokenizer = tokenizer
        self._words = sorted(set(TEXT.replace(",", "").replace(".", "").lower().split()))
        self._random = random_source
        words = " ".join(random_source.choice(self._words) for _ in range(shared_prefix))
        self._prefix_ids = self._encode(words)[:shared_prefix] if shared_prefix else []
        self._prefix: str = tokenizer.decode(self._prefix_ids) + " " if shared_prefix else ""

    def text(self, tokens: int) -> str:
        """English words of exactly `tokens` tokens, special tokens not counted. Raises TritoneError."""
        for _ in range(TRIES):
            words = " ".join(self._random.choice(self._words) for _ in range(tokens))
            text: str = self._tokenizer.decode(self._encode(self._prefix + words)[:tokens])
            if len(self._encode(text)) == tokens:
                return text
        raise TritoneError(f"the tokenizer gives no English prompt of exactly {tokens} tokens")

    def ids(self, tokens: int) -> list[int]:
        """Random token ids."""
        size = self._tokenizer.get_vocab_size(with_added_tokens=False)
        more = [self._random.randrange(FIRST_ID, size) for _ in range(tokens - len(self._prefix_ids))]
        return (self._prefix_ids + more)[:tokens]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def synthetic(make: Callable[[int], Any], prompts: Lengths, outputs: Lengths, random_source: random.Random) -> Requests:
    """Prompts made by `make`, lengths drawn from the two mixtures."""
    while True:
        yield LoadRequest(make(prompts.draw(random_source)), outputs.draw(random_source))


def from_lines(path: Path, outputs: Lengths, random_source: random.Random) -> Requests:
    """Prompts of a file, over and over: a line each, or with the ending .jsonl objects with "prompt" and, if they like,
    "max_tokens". Raises TritoneError."""
    is_jsonl = path.suffix == ".jsonl"
    rows: list[dict[str, Any]] = (
        _rows(path) if is_jsonl else [{"prompt": line} for line in _text(path).splitlines() if line]
    )
    for number, row in enumerate(rows, start=1):
        if not isinstance(row.get("prompt"), str) or not isinstance(row.get("max_tokens", 1), int):
            raise TritoneError(f'{path}, entry {number}: expected a text "prompt" and a number "max_tokens"')
    return _over_and_over(
        path, [(row["prompt"], row.get("max_tokens")) for row in rows], outputs, random_source, is_shuffled=False
    )


def from_sharegpt(
    path: Path, count_tokens: Callable[[str], int] | None, outputs: Lengths, seed: random.Random
) -> Requests:
    """The first turn of each conversation of a file in ShareGPT's format, shuffled; answers as long as the second turn,
    where a tokenizer can tell. Raises TritoneError."""
    try:
        turns = [entry["conversations"] for entry in json.loads(_text(path)) if len(entry["conversations"]) >= 2]
        pairs = [(str(first["value"]), str(second["value"])) for first, second, *_ in turns]
    except (ValueError, KeyError, TypeError) as error:
        raise TritoneError(f"{path} is not in ShareGPT's format: {type(error).__name__}: {error}") from error
    rows = [(prompt, max(1, count_tokens(answer)) if count_tokens else None) for prompt, answer in pairs if prompt]
    return _over_and_over(path, rows, outputs, seed, is_shuffled=True)


def from_trace(path: Path, make: Callable[[int], Any]) -> list[LoadRequest]:
    """The requests of a trace, once, by their time; the first is due at once. Raises TritoneError.

    A line is a JSON object with "timestamp" (milliseconds), "output_length", and "input_length" (as Mooncake's) or
    "prompt".
    """
    rows = _rows(path)
    try:
        found = sorted(
            (float(row["timestamp"]) / 1000, number, row, int(row["output_length"])) for number, row in enumerate(rows)
        )
        first_s = found[0][0]
        return [
            LoadRequest(
                str(row["prompt"]) if "prompt" in row else make(int(row["input_length"])), tokens, time_s - first_s
            )
            for time_s, _, row, tokens in found
        ]
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise TritoneError(
            f'{path}: expected a line for each request with "timestamp", "input_length" or "prompt", and '
            f'"output_length": {type(error).__name__}: {error}'
        ) from error


def _over_and_over(
    path: Path,
    rows: Sequence[tuple[str, int | None]],
    outputs: Lengths,
    random_source: random.Random,
    is_shuffled: bool,
) -> Requests:
    if not rows:
        raise TritoneError(f"{path} has no prompts")
    order = list(rows)
    if is_shuffled:
        random_source.shuffle(order)
    return (
        LoadRequest(prompt, tokens if tokens is not None else outputs.draw(random_source))
        for prompt, tokens in (order[number % len(order)] for number in count())
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise TritoneError(f"{path}, line {number} is not JSON: {error}") from error
            if not isinstance(row, dict):
                raise TritoneError(f"{path}, line {number} is not a JSON object")
            rows.append(row)
    return rows


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TritoneError(f"{path} cannot be read: {error}") from error
