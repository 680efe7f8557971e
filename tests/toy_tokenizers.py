"""Tokenizers small enough to read, built in memory: byte-level BPE and sentencepiece style with byte fallback."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

IM_START, IM_END, THINK = 256, 257, 258
"""Added tokens of the byte-level tokenizer: two special ones (`IM_END` ends an answer) and one that is text."""

PADDED_VOCAB_SIZE = 320
"""Rows of a byte-level model; ids from 259 on have no tokenizer entry, pieces of a test come behind them."""

UNK, BOS, EOS, FIRST_BYTE = 0, 1, 2, 3
"""Special tokens of the byte-fallback tokenizer, and the id of byte 0."""

BLANK_HELLO, BLANK_WORLD, HELLO, BLANK = 259, 260, 261, 262
"""Pieces of the byte-fallback tokenizer."""

BLANK_MARK = "\u2581"


def byte_level_tokenizer(pieces: Sequence[str] = ()) -> Tokenizer:
    """Ids 0-255 are the bytes, 256-258 `<|im_start|>`, `<|im_end|>` (special), `<think>`; `pieces` start at 320."""
    vocab = {character: byte for byte, character in enumerate(_byte_alphabet())}
    vocab |= {"<|im_start|>": IM_START, "<|im_end|>": IM_END, "<think>": THINK}
    vocab |= {_in_byte_alphabet(piece): PADDED_VOCAB_SIZE + n for n, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False)])
    return tokenizer


def byte_fallback_tokenizer(pieces: Sequence[str] = (), decoder: decoders.Decoder | None = None) -> Tokenizer:
    """Ids 0-2 `<unk>`, `<s>`, `</s>`, 3-258 the bytes, then the pieces above; `pieces` start at 263."""
    texts = [BLANK_MARK + "Hello", BLANK_MARK + "world", "Hello", BLANK_MARK, *pieces]
    vocab = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *texts]
    tokenizer = Tokenizer(models.Unigram([(piece, 0.0) for piece in vocab], unk_id=UNK, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(BLANK_MARK), normalizers.Replace(" ", BLANK_MARK)])
    tokenizer.decoder = decoder or sentencepiece_decoder()
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def sentencepiece_decoder() -> decoders.Decoder:
    """What Llama 2 and Mistral ship: blanks for marks, bytes, one leading blank cut off."""
    steps = [decoders.Replace(BLANK_MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    return decoders.Sequence(steps)


def _byte_alphabet() -> list[str]:
    """GPT-2's character for each byte: itself if printable, else numbered from U+0100 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _in_byte_alphabet(text: str) -> str:
    alphabet = _byte_alphabet()
    return "".join(alphabet[byte] for byte in text.encode())
