"""What a decoder cuts off the start of a text, token by token. Runs in Triton's Python backend.

The detokenizer does the same with whole chunks; here it is for log probabilities, which tell each token's own bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from .piece_rule import PieceRule
from .vocabulary import Vocabulary


class TextStart(NamedTuple):
    """The start of a text that has no character yet; the next token is its first piece, or follows pieces cut away."""

    vocabulary: Vocabulary
    rule: PieceRule
    is_first_piece: bool
    strip_left: int

    def to_bytes(self, token_id: int) -> bytes:
        """What the token is worth if it comes next."""
        whole = self._whole(token_id)
        return whole[self._num_stripped(whole) :]

    def after(self, token_id: int) -> TextStart | None:
        """The start once the token, which is not hidden, has come; None when it is over."""
        whole = self._whole(token_id)
        count = self._num_stripped(whole)
        left = self.strip_left - count if count == len(whole) else 0
        return self._replace(is_first_piece=False, strip_left=left) if left else None

    def _whole(self, token_id: int) -> bytes:
        piece = self.vocabulary.tokenizer.id_to_token(token_id) or ""
        return self.rule.to_bytes(piece, is_start=self.is_first_piece)

    def _num_stripped(self, whole: bytes) -> int:
        first = self.rule.strip_character.encode()
        return min(self.strip_left, len(whole) - len(whole.lstrip(first)))


def text_start(vocabulary: Vocabulary) -> TextStart | None:
    """The start of a text; None where a token is worth the same there as anywhere."""
    rule = vocabulary.rule
    if rule is None or not (rule.is_start_special or rule.strip_count):
        return None
    return TextStart(vocabulary, rule, rule.is_start_special, rule.strip_count)
