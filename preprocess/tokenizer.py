"""The model's tokenizer.json as this stage uses it: text to ids, with the special tokens the model expects around it.

The ids come from tokenizer.json taken literally, the file the postprocess stage decodes with. transformers may rebuild
a tokenizer from its class name instead (`GPT2Tokenizer` drops a digit splitter), which changes ids without a word; so
it is asked only what surrounds a prompt, for the chat template and for the end token.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PromptTokenizer:
    """Encodes batches of text, and knows the ids the model wants before and after a plain prompt."""

    def __init__(self, backend: Tokenizer, prefix: list[int], suffix: list[int]) -> None:
        self._backend = backend
        self._prefix = prefix
        self._suffix = suffix
        self.vocab_size: int = backend.get_vocab_size(with_added_tokens=True)
        self.longest_token_chars = max(map(len, backend.get_vocab()))

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, no special tokens added; special tokens written out in a text become their ids."""
        return [encoding.ids for encoding in self._backend.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids: list[int]) -> str:
        """The text of `ids`, special tokens included."""
        text: str = self._backend.decode(ids, skip_special_tokens=False)
        return text

    def surround(self, ids: list[int]) -> list[int]:
        """Add the model's own special tokens (BOS, mostly). A prompt that already starts with them gets no second."""
        prefix = [] if ids[: len(self._prefix)] == self._prefix else self._prefix
        return prefix + ids + self._suffix


def load_tokenizer(folder: str | Path, trust_remote_code: bool) -> tuple[PromptTokenizer, PreTrainedTokenizerBase]:
    """Return the tokenizer for prompts and transformers' one, which renders the chat template.

    Raises ValueError if the folder has no tokenizer.json.
    """
    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        raise ValueError(f"tokenizer_dir: {path} does not exist; save the tokenizer in the fast format")
    reference = _load_reference(folder, trust_remote_code)
    backend = Tokenizer.from_file(os.fspath(path))
    for tokenizer in (backend, reference.backend_tokenizer):
        tokenizer.no_truncation()
        tokenizer.no_padding()
    return PromptTokenizer(backend, *_surroundings(reference.backend_tokenizer)), reference


def _load_reference(folder: str | Path, trust_remote_code: bool) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code, local_files_only=True)


def _surroundings(backend: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids the tokenizer's post-processor puts before and after a text."""
    if backend.num_special_tokens_to_add(False) == 0:
        return [], []
    bare = backend.encode("a", add_special_tokens=False).ids
    whole = backend.encode("a").ids
    start = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    return whole[:start], whole[start + len(bare) :]
