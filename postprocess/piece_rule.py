"""How a `tokenizer.json` decoder turns one vocabulary piece into bytes. Runs in Triton's Python backend.

Byte-level and sentencepiece-style decoders look at one piece at a time, apart from what they cut off at the very start
of a text. For those the bytes of every id can be worked out once, and a stream needs no decoder call at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_UNPRINTABLE = (byte for byte in range(256) if byte not in _PRINTABLE)
# GPT-2's alphabet: a printable byte is its own character, the others are numbered from U+0100 on.
_BYTE_OF_CHARACTER = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + n): b for n, b in enumerate(_UNPRINTABLE)}

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")

_LETTERS = {"Replace": "R", "Metaspace": "R", "ByteFallback": "B", "Fuse": "F", "Strip": "S", "ByteLevel": "L"}
# Orders in which every step but the last works on single pieces, and the last on the start of the text.
_PIECEWISE = re.compile(r"R*B?(FS?)?|LF?")


@dataclass(frozen=True)
class Replacement:
    """`old` becomes `new`, and `new_at_start` in the first piece of a text (Metaspace drops its blank there)."""

    old: str
    new: str
    new_at_start: str


@dataclass(frozen=True)
class PieceRule:
    """A decoder that works piece by piece; up to `strip_count` times `strip_character` is cut off the text's start."""

    is_byte_level: bool = False
    has_byte_fallback: bool = False
    replacements: tuple[Replacement, ...] = ()
    strip_character: str = " "
    strip_count: int = 0

    @property
    def is_start_special(self) -> bool:
        """Whether the first piece of a text has other bytes than the same piece further on."""
        return any(step.new != step.new_at_start for step in self.replacements)

    def to_bytes(self, piece: str, *, is_start: bool = False) -> bytes:
        """Bytes of one piece; they may be part of a UTF-8 character."""
        if self.is_byte_level:
            return _byte_level(piece)
        for step in self.replacements:
            piece = piece.replace(step.old, step.new_at_start if is_start else step.new)
        match = _BYTE_PIECE.fullmatch(piece) if self.has_byte_fallback else None
        return bytes.fromhex(match[1]) if match else piece.encode()


def piece_rule(decoder: Mapping[str, Any] | None) -> PieceRule | None:
    """The rule for the decoder section of a `tokenizer.json`, None for a decoder that needs the pieces around."""
    steps = list(_flatten(decoder)) if decoder else []
    if not steps or not _PIECEWISE.fullmatch("".join(map(_letter, steps))):
        return None
    kinds = {step["type"] for step in steps}
    strip: Mapping[str, Any] = steps[-1] if "Strip" in kinds else {"content": " ", "start": 0}
    return PieceRule(
        is_byte_level="ByteLevel" in kinds,
        has_byte_fallback="ByteFallback" in kinds,
        replacements=tuple(_replacement(step) for step in steps if _letter(step) == "R"),
        strip_character=strip["content"],
        strip_count=strip["start"],
    )


def _flatten(decoder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if decoder["type"] != "Sequence":
        yield decoder
        return
    for step in decoder["decoders"]:
        yield from _flatten(step)


def _letter(step: Mapping[str, Any]) -> str:
    is_regex = step["type"] == "Replace" and "String" not in step["pattern"]
    cuts_end = step["type"] == "Strip" and step["stop"]
    return "?" if is_regex or cuts_end else _LETTERS.get(step["type"], "?")


def _replacement(step: Mapping[str, Any]) -> Replacement:
    if step["type"] == "Replace":
        return Replacement(step["pattern"]["String"], step["content"], step["content"])
    return Replacement(step["replacement"], " ", " " if step["prepend_scheme"] == "never" else "")


def _byte_level(piece: str) -> bytes:
    try:
        return bytes(map(_BYTE_OF_CHARACTER.__getitem__, piece))
    except KeyError:  # an added token, written in plain characters
        return piece.encode()
