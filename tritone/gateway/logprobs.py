"""Log probabilities as OpenAI's two APIs write them, from the ensemble's, which are the chat API's entries as JSON."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping, Sequence
from typing import Any

from .ensemble_client import Event


def entries_of(events: Sequence[Event]) -> str:
    """The entries of events that arrived together, as a JSON list; "" if there are none."""
    entries = ",".join(event.logprobs[1:-1] for event in events if event.logprobs and event.logprobs != "[]")
    return f"[{entries}]" if entries else ""


def chat_logprobs(entries: str) -> str:
    """The chat API's object, as JSON."""
    return f'{{"content":{entries or "[]"},"refusal":null}}'


class CompletionLogprobs:
    """The completions API's lists for one choice, whose entries may come in parts."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0  # characters of the text before the next token; one that is unfinished does not count

    def add(self, entries: str) -> dict[str, Any]:
        """The object for the next entries. As with OpenAI, `top_logprobs` have the token itself, too."""
        tokens = json.loads(entries or "[]")
        return {
            "tokens": [_name(token) for token in tokens],
            "token_logprobs": [token["logprob"] for token in tokens],
            "top_logprobs": [_by_name([*token["top_logprobs"], token]) for token in tokens],
            "text_offset": [self._move(token) for token in tokens],
        }

    def _move(self, token: Mapping[str, Any]) -> int:
        offset = self._offset
        self._offset += len(self._decoder.decode(bytes(token["bytes"])))
        return offset


def _by_name(tokens: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Their log probabilities; of tokens that look the same, that of the first."""
    named: dict[str, float] = {}
    for token in tokens:
        named.setdefault(_name(token), token["logprob"])
    return named


def _name(token: Mapping[str, Any]) -> str:
    """The token's text, or, as OpenAI writes it, the bytes of a part of a character: `bytes:\\xf0\\x9f`."""
    data = bytes(token["bytes"])
    if "\ufffd" not in token["token"] or data in (b"", str(token["token"]).encode()):
        return str(token["token"])
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
