"""Token ids of one stream into text, chunk by chunk. Runs in Triton's Python backend.

Joined, the pieces are the same text for every way of cutting the ids into chunks. Both classes keep their state in
immutable values, so `copy.copy` takes a snapshot.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Protocol

from .piece_rule import PieceRule
from .vocabulary import Vocabulary

_MAX_HELD_TOKENS = 4  # no UTF-8 character is longer than 4 bytes, and a token has at least one


class Detokenizer(Protocol):
    """State of one stream."""

    unknown_ids: int
    """Ids without tokenizer entry seen so far (padding rows of the model, corrupt ids): they are no text."""

    def feed(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """Text that is certain after `ids`; takes any integers, never raises."""

    def flush(self) -> str:
        """Text of what is still held; an unfinished character becomes U+FFFD."""


def detokenizer_for(vocabulary: Vocabulary, *, is_text_start: bool = True) -> Detokenizer:
    """The detokenizer that fits the vocabulary.

    `is_text_start` false keeps the blank that a decoder cuts off the start of a text (a `WindowDetokenizer` cannot).
    """
    if vocabulary.rule is None:
        return WindowDetokenizer(vocabulary)
    return ByteDetokenizer(vocabulary, vocabulary.rule, is_text_start=is_text_start)


class ByteDetokenizer:
    """Joins the bytes of the ids and decodes them once; holds at most the 3 bytes of an unfinished character.

    An invalid run gives one U+FFFD per maximal subpart, as Python's and Rust's lossy UTF-8 decoders do.
    """

    def __init__(self, vocabulary: Vocabulary, rule: PieceRule, *, is_text_start: bool = True) -> None:
        self._vocabulary = vocabulary
        self._rule = rule
        self._pending = b""
        self._awaits_first_piece = is_text_start and rule.is_start_special
        self._strip_left = rule.strip_count if is_text_start else 0
        self.unknown_ids = 0

    def feed(self, ids: Sequence[int], *, skip_special: bool) -> str:
        table = self._vocabulary.without_special if skip_special else self._vocabulary.with_special
        try:
            data = b"".join(map(table.__getitem__, ids))
        except KeyError:
            return self.feed(self._known(ids), skip_special=skip_special)
        if self._awaits_first_piece:
            data = self._join_at_start(ids, table)
        data = self._pending + data
        text, used = codecs.utf_8_decode(data, "replace", False)
        self._pending = data[used:]
        return self._strip(text) if self._strip_left else text

    def flush(self) -> str:
        text = self._pending.decode(errors="replace")
        self._pending = b""
        return text

    def _known(self, ids: Sequence[int]) -> list[int]:
        known = [token_id for token_id in ids if token_id in self._vocabulary.with_special]
        self.unknown_ids += len(ids) - len(known)
        return known

    def _join_at_start(self, ids: Sequence[int], table: dict[int, bytes]) -> bytes:
        pieces = [table[token_id] for token_id in ids]
        first = next((n for n, piece in enumerate(pieces) if piece), None)
        if first is not None:
            piece = self._vocabulary.tokenizer.id_to_token(ids[first]) or ""
            pieces[first] = self._rule.to_bytes(piece, is_start=True)
            self._awaits_first_piece = False
        return b"".join(pieces)

    def _strip(self, text: str) -> str:
        while text and self._strip_left:
            if text[0] != self._rule.strip_character:
                self._strip_left = 0
            else:
                self._strip_left -= 1
                text = text[1:]
        return text


class WindowDetokenizer:
    """For decoders that look at neighbours: decodes each token behind those of the last text and takes what is new.

    A text that ends in U+FFFD may be half a character and waits for at most 4 tokens, so no decoder call sees over 8.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._context: tuple[int, ...] = ()
        self._held: tuple[int, ...] = ()
        self.unknown_ids = 0

    def feed(self, ids: Sequence[int], *, skip_special: bool) -> str:
        table = self._vocabulary.without_special if skip_special else self._vocabulary.with_special
        self.unknown_ids += sum(token_id not in table for token_id in ids)
        return "".join([self._add(token_id) for token_id in ids if table.get(token_id)])

    def flush(self) -> str:
        text = self._new_text()
        self._context, self._held = self._held, ()
        return text

    def _add(self, token_id: int) -> str:
        self._held += (token_id,)
        is_unfinished = len(self._held) < _MAX_HELD_TOKENS and self._new_text().endswith("\ufffd")
        return "" if is_unfinished else self.flush()

    def _new_text(self) -> str:
        known = self._decode(self._context)
        return self._decode(self._context + self._held)[len(known) :]

    def _decode(self, ids: tuple[int, ...]) -> str:
        # Special tokens that are not to be shown never get here, so that the window holds tokens with text only.
        return self._vocabulary.tokenizer.decode(ids, skip_special_tokens=False)
