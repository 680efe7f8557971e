"""What the operator decides about the preprocess stage; read once when the stage starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

GENERATION_CONFIG_CHOICES = ("auto", "none")


@dataclass(frozen=True, slots=True)
class PreprocessSettings:
    """Raises ValueError naming the setting and what it may be.

    tokenizer_dir: folder with tokenizer.json, and config.json, generation_config.json, tokenizer_config.json if any.
    max_model_len: context length in tokens, prompt and answer together; None = as config.json says.
    vocab_size: number of token ids the engine knows, padding rows included; None = as config.json says.
    stream_default: whether a request that does not say `stream` is streamed.
    generation_config: "auto" = the model's generation_config.json fills in what a client leaves out; "none" = neutral.
    trust_remote_code: whether Python code in the model folder may run to build the tokenizer.
    chat_template: a Jinja template, or the path of a file with one, instead of the model's own.
    max_prompt_chars: longest prompt text that is tokenized at all; None = the most the context could ever hold.
    """

    tokenizer_dir: str | Path
    max_model_len: int | None = None
    vocab_size: int | None = None
    stream_default: bool = True
    generation_config: str = "auto"
    trust_remote_code: bool = False
    chat_template: str | None = None
    max_prompt_chars: int | None = None

    def __post_init__(self) -> None:
        if self.generation_config not in GENERATION_CONFIG_CHOICES:
            raise ValueError(f"generation_config: got {self.generation_config!r}, allowed: auto, none")
        for name in ("max_model_len", "vocab_size", "max_prompt_chars"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: got {value}, must be at least 1")
