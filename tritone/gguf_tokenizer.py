"""Makes a Hugging Face tokenizer from the metadata of a GGUF file. Runs in our process.

The ids must be those of the tokenizer the model was trained with. So each vocabulary type and pre-tokenizer handled
here is known by name, and any other is refused: a nearly right one gives nearly right answers, unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from tritone.errors import ModelError

# Token types of the GGUF specification.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2_SPLIT = rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}"
_LLAMA3_SPLIT = rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}"


@dataclass(frozen=True)
class _ByteLevelKind:
    """One family of byte-level BPE. `split` is a regular expression; without one GPT-2's own is used."""

    split: str | None = None
    single_digits: bool = False
    nfc: bool = False
    whole_words: bool = False  # a word that is a token is never built from merges
    adds_bos: bool = False


_GPT2 = _ByteLevelKind()
_SMOLLM = _ByteLevelKind(single_digits=True)
_QWEN2 = _ByteLevelKind(split=_QWEN2_SPLIT, nfc=True)
_LLAMA3 = _ByteLevelKind(split=_LLAMA3_SPLIT, whole_words=True, adds_bos=True)

_BYTE_LEVEL_KINDS = {
    "default": _GPT2,
    "gpt-2": _GPT2,
    "smollm": _SMOLLM,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
}


@dataclass(frozen=True)
class GgufVocabulary:
    """The tokenizer part of a GGUF file's metadata. `values` has keys without the `tokenizer.ggml.` in front."""

    values: dict[str, Any]

    @classmethod
    def of(cls, metadata: dict[str, Any]) -> GgufVocabulary:
        """The vocabulary in all of a file's metadata. Raises ModelError if there is none."""
        prefix = "tokenizer.ggml."
        values = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
        if missing := {"model", "tokens", "token_type"} - values.keys():
            raise ModelError(f"the GGUF file has no {', '.join(prefix + key for key in sorted(missing))}")
        return cls(values)

    @property
    def tokens(self) -> list[str]:
        """The text of every token, by id."""
        return list(self.values["tokens"])

    def ids(self) -> dict[str, int]:
        """Token texts to ids, without the rows that only pad the embedding."""
        return {text: i for i, (text, kind) in enumerate(self._typed()) if kind != _UNUSED}

    def plain(self) -> set[str]:
        """The tokens that merges may build: neither control nor user-defined nor single bytes."""
        return {text for text, kind in self._typed() if kind == _NORMAL}

    def added(self) -> list[AddedToken]:
        """The tokens found in a text before anything else is, in the order of their ids."""
        kinds = (_UNKNOWN, _CONTROL, _USER_DEFINED)
        return [
            AddedToken(text, special=kind != _USER_DEFINED, normalized=False)
            for text, kind in self._typed()
            if kind in kinds
        ]

    def token_id(self, role: str) -> int | None:
        """The id of a special token by its role: bos, eos, eot, eom, unknown or padding. ModelError if out of range."""
        token_id = self.values.get(f"{role}_token_id")
        if token_id is not None and not 0 <= token_id < len(self.values["tokens"]):
            raise ModelError(f"tokenizer.ggml.{role}_token_id is {token_id}, outside the GGUF file's vocabulary")
        return token_id

    def _typed(self) -> list[tuple[str, int]]:
        return list(zip(self.values["tokens"], self.values["token_type"], strict=True))


def build_tokenizer(vocabulary: GgufVocabulary) -> Tokenizer:
    """The tokenizer of a GGUF vocabulary: byte-level BPE ("gpt2") or SentencePiece BPE ("llama").

    Raises ModelError naming what is supported for any other vocabulary or pre-tokenizer.
    """
    model = vocabulary.values["model"]
    if model == "gpt2":
        return _byte_level(vocabulary)
    if model == "llama":
        return _sentencepiece(vocabulary)
    raise ModelError(
        f"the GGUF file's vocabulary type {model!r} (tokenizer.ggml.model) is not supported; accepted: gpt2, llama"
    )


def _byte_level(vocabulary: GgufVocabulary) -> Tokenizer:
    kind = _byte_level_kind(vocabulary)
    merges = [_merge(line) for line in vocabulary.values.get("merges", [])]
    tokenizer = Tokenizer(models.BPE(vocabulary.ids(), merges, ignore_merges=kind.whole_words))
    if kind.nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = _byte_level_split(kind)
    tokenizer.decoder = decoders.ByteLevel()
    return _with_added_tokens(tokenizer, vocabulary, kind.adds_bos)


def _byte_level_kind(vocabulary: GgufVocabulary) -> _ByteLevelKind:
    name = vocabulary.values.get("pre", "default")
    if name not in _BYTE_LEVEL_KINDS:
        known = ", ".join(_BYTE_LEVEL_KINDS)
        raise ModelError(
            f"the GGUF file's pre-tokenizer {name!r} (tokenizer.ggml.pre) is not supported; known: {known}"
        )
    return _BYTE_LEVEL_KINDS[name]


def _byte_level_split(kind: _ByteLevelKind) -> pre_tokenizers.PreTokenizer:
    first: list[pre_tokenizers.PreTokenizer] = []
    if kind.split:
        first = [pre_tokenizers.Split(Regex(kind.split), "isolated")]
    elif kind.single_digits:
        first = [pre_tokenizers.Digits(individual_digits=True)]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind.split is None)
    return pre_tokenizers.Sequence([*first, last])


def _merge(line: str) -> tuple[str, str]:
    left, _, right = line[1:].partition(" ")  # the first character may itself be a space
    return line[0] + left, right


def _sentencepiece(vocabulary: GgufVocabulary) -> Tokenizer:
    ids = vocabulary.ids()
    unknown = vocabulary.token_id("unknown")
    unknown_text = vocabulary.tokens[0 if unknown is None else unknown]
    merges = _merges_by_score(vocabulary, ids)
    has_prefix = bool(vocabulary.values.get("add_space_prefix", True))
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token=unknown_text, fuse_unk=True, byte_fallback=True))
    prefix = [normalizers.Prepend("▁")] if has_prefix else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", "▁")])
    strip = [decoders.Strip(" ", 1, 0)] if has_prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return _with_added_tokens(tokenizer, vocabulary, adds_bos=True)


def _merges_by_score(vocabulary: GgufVocabulary, ids: dict[str, int]) -> list[tuple[str, str]]:
    """Every way to build a piece from two others, best score first: SentencePiece merges whatever scores best."""
    scores = vocabulary.values.get("scores")
    if scores is None:
        raise ModelError("the GGUF file has a llama vocabulary without tokenizer.ggml.scores")
    plain = vocabulary.plain()
    merges = []
    for piece in plain:
        splits = ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
        merges += [(-scores[ids[piece]], *split) for split in splits if plain.issuperset(split)]
    merges.sort(key=lambda merge: (merge[0], -len(merge[1]), ids[merge[1]], ids[merge[2]]))
    return [(left, right) for _, left, right in merges]


def _with_added_tokens(tokenizer: Tokenizer, vocabulary: GgufVocabulary, adds_bos: bool) -> Tokenizer:
    tokenizer.add_tokens(vocabulary.added())
    around = [_around(vocabulary, "bos", adds_bos), _around(vocabulary, "eos", False)]
    if any(around):
        first, last = around
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*(text for text, _ in first), "$A", *(text for text, _ in last)],
            special_tokens=list(dict([*first, *last]).items()),
        )
    return tokenizer


def _around(vocabulary: GgufVocabulary, role: str, default: bool) -> list[tuple[str, int]]:
    token_id = vocabulary.token_id(role)
    if token_id is None or not vocabulary.values.get(f"add_{role}_token", default):
        return []
    return [(vocabulary.tokens[token_id], token_id)]
