"""What each token id is worth in bytes, read once from `tokenizer.json`. Runs in Triton's Python backend.

Bytes, not strings, are the unit of streaming: a token may hold part of a character, and bytes may simply be joined.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from .piece_rule import PieceRule, piece_rule


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Shared by all streams of a model, never changed after loading.

    `with_special` and `without_special` map every id that has a tokenizer entry to its bytes; the second has b"" for
    special tokens. `rule` is None where bytes per id do not give the text (WordPiece, CTC, no decoder): then the tables
    only say which ids exist and which are special, and text comes from `tokenizer` (see `WindowDetokenizer`).
    """

    tokenizer: Tokenizer
    rule: PieceRule | None
    with_special: dict[int, bytes]
    without_special: dict[int, bytes]

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Reads a `tokenizer.json`. Raises ValueError naming the file if it is missing or not one."""
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception for every fault
            raise ValueError(f"{path} cannot be read as a tokenizer.json: {error}") from error
        return cls.of(tokenizer)

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        """Builds the tables of a tokenizer."""
        rule = piece_rule(json.loads(tokenizer.decoder.__getstate__()) if tokenizer.decoder else None)
        pieces = {token_id: piece for piece, token_id in tokenizer.get_vocab(with_added_tokens=False).items()}
        added = tokenizer.get_added_tokens_decoder()
        pieces.update({token_id: token.content for token_id, token in added.items()})
        to_bytes = rule.to_bytes if rule else str.encode
        with_special = {token_id: to_bytes(piece) for token_id, piece in pieces.items()}
        hidden = {token_id: b"" for token_id, token in added.items() if token.special}
        return cls(tokenizer, rule, with_special, {**with_special, **hidden})
