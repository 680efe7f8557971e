"""A model of transformers, and batches of answers that begin and end together. Runs in the engine stage."""

from __future__ import annotations

import inspect
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.utils.logging import disable_progress_bar

from .adapter import TokenDelta, TokenLogprob
from .answer import Answer
from .sampling import choose, token_logprobs

OPTIONAL = ("position_ids", "logits_to_keep")
"""What not every model's `forward` takes: some derive the positions from the attention mask."""


class CausalModel:
    """The causal language model of a Hugging Face folder, on its device. Ids are below `vocab_size`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        accepted = inspect.signature(model.forward).parameters
        self._left_out = [name for name in OPTIONAL if name not in accepted]
        self.vocab_size: int = model.config.get_text_config(decoder=True).vocab_size
        self.device = model.device

    def new_cache(self) -> DynamicCache:
        """An empty KV cache of the layers that the model has."""
        return DynamicCache(config=self._model.config)

    def logits(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: DynamicCache
    ) -> torch.Tensor:
        """Logits [rows, vocabulary] after the last of `ids`; keys and values of all of them are put into the cache.

        `ids` and `positions` are int64 [rows, new], `mask` is int64 [rows, cached and new], 0 for padding.
        """
        inputs = {"input_ids": ids, "attention_mask": mask, "past_key_values": cache, "use_cache": True}
        inputs |= {"position_ids": positions, "logits_to_keep": 1}
        for name in self._left_out:
            del inputs[name]
        return self._model(**inputs).logits[:, -1]

    def check_device(self) -> None:
        """Raise if the device computes nothing any more, as a GPU after an access to memory that is not there."""
        torch.ones(1, device=self.device).item()


class StaticBatch:
    """Answers that are made together, a row for each. Rows of answers that are over are computed on to the end."""

    def __init__(self, model: CausalModel, answers: Sequence[Answer]) -> None:
        self._model = model
        self._answers = answers
        self._cache = model.new_cache()
        ids, mask = left_padded([answer.ids for answer in answers])
        self._next_ids, self._mask = ids.to(model.device), mask.to(model.device)
        self._positions = (self._mask.cumsum(-1) - 1).clamp(min=0)

    def step(self, live: Container[int]) -> list[TokenDelta]:
        """Make one id for each answer whose key is in `live`."""
        with torch.inference_mode():
            logits = self._model.logits(self._next_ids, self._mask, self._positions, self._cache)
            rows = [row for row, answer in enumerate(self._answers) if answer.request.key in live]
            answers = [self._answers[row] for row in rows]
            logits = logits[rows].float()
            ids = choose(logits, answers)
            logprobs = token_logprobs(logits, ids, answers)
            deltas = [extend(*made) for made in zip(answers, ids, logprobs, strict=True)]
            self._advance()
        return deltas

    def _advance(self) -> None:
        """The inputs of the next step. Rows that are over repeat theirs, so their positions stay in the context."""
        last = [[answer.ids[-1], len(answer.ids) - 1] for answer in self._answers]
        self._next_ids, self._positions = torch.tensor(last, device=self._model.device).split(1, -1)
        self._mask = torch.cat((self._mask, torch.ones_like(self._next_ids)), -1)


def load_model(*, model_path: str, dtype: str, device: str, trust_remote_code: bool) -> CausalModel:
    """The model in the folder `model_path`. Raises RuntimeError with a sentence for the user."""
    if not (Path(model_path) / "config.json").is_file():
        raise RuntimeError(f"model_path: there is no config.json in {model_path}")
    disable_progress_bar()  # this goes to a log
    try:
        model = AutoModelForCausalLM.from_pretrained(
            model_path, dtype=dtype, trust_remote_code=trust_remote_code, local_files_only=True
        )
        model.eval().to(device)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise RuntimeError(f"model_path: {model_path} cannot be loaded on {device} ({reason})") from error
    if "past_key_values" not in inspect.signature(model.forward).parameters:
        raise RuntimeError(f"model_path: {type(model).__name__} has no KV cache, which this engine needs")
    return CausalModel(model)


def left_padded(prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and attention mask, both int64 [prompts, longest]; 0 in front of shorter prompts."""
    longest = max(map(len, prompts))
    ids = [[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids), torch.tensor(mask)


def extend(answer: Answer, token: int | None, logprobs: tuple[TokenLogprob, ...]) -> TokenDelta:
    """Put `token` at the end of the answer; without one the answer has failed."""
    key = answer.request.key
    if token is None:
        return TokenDelta(key, (), "error", "the engine failed: no token can come next")
    answer.ids.append(token)
    return TokenDelta(key, (token,), answer.finish_reason(), logprobs=logprobs)
