"""Prompts of an exact length. Runs on the load host."""

from __future__ import annotations

import random
from pathlib import Path

from tritone.errors import TritoneError

TEXT = (
    "The river runs down from the hills and through the old town, where people sit in the sun and talk about the "
    "weather, the price of bread and the children who have gone to live in the city. In the evening the lights come "
    "on along the water, and the boats that were out all day return one after the other with their nets. "
)


def text_of(tokens: int, tokenizer_dir: Path) -> str:
    """English of exactly so many tokens of the tokenizer in the folder. Raises TritoneError where no cut gives that."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
    ids = tokenizer.encode(TEXT * (tokens // 16 + 1), add_special_tokens=False).ids[:tokens]
    text: str = tokenizer.decode(ids)
    if len(tokenizer.encode(text).ids) != tokens:
        raise TritoneError(f"the tokenizer in {tokenizer_dir} gives no English prompt of exactly {tokens} tokens")
    return text


def random_ids(prompts: int, tokens: int, vocab_size: int, random_source: random.Random) -> list[list[int]]:
    """Prompts that share no beginning, so that nothing of them is in a prefix cache."""
    low = vocab_size // 100  # special tokens have the lowest ids in most vocabularies
    return [[random_source.randrange(low, vocab_size) for _ in range(tokens)] for _ in range(prompts)]


def spread_lengths(mean: int, count: int, random_source: random.Random) -> list[int]:
    """`count` answer lengths from mean/2 to 3*mean/2, evenly spread, in random order; their mean is `mean`.

    With one length for all, streams that start together would also end together, again and again.
    """
    lengths = [mean - mean // 2 + round(step * 2 * (mean // 2) / (count - 1)) for step in range(count)]
    random_source.shuffle(lengths)
    return lengths
