"""transformers' own loop, `model.generate`: a batch of all requests, handed over when the last token is there.

Runs in the process of the bare engine, on the Python of transformers' environment.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from perf.records import RequestRecord


class TransformersLoop:
    """The model as users of transformers load it, with the adapter's settings."""

    def __init__(self, *, model_path: str, dtype: str, device: str, trust_remote_code: bool, max_num_seqs: int) -> None:
        del max_num_seqs  # a batch has the requests that it is given
        self._model = AutoModelForCausalLM.from_pretrained(
            model_path, dtype=dtype, trust_remote_code=trust_remote_code, local_files_only=True
        )
        self._model.eval().to(device)
        # where a request says nothing, `generate` takes the model's own: an end id, and how to sample
        self._model.generation_config = GenerationConfig(do_sample=False, pad_token_id=0)

    def burst(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[RequestRecord]:
        """See BareLoop. The prompts must be of one length."""
        started_ns = time.time_ns()
        ids = torch.tensor([list(prompt) for prompt in prompts], device=self._model.device)
        made = self._model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens)
        counts = [len(row) - ids.shape[1] for row in made.tolist()]
        ended_ns = time.time_ns()
        return [RequestRecord(started_ns, (ended_ns,), (count,)) for count in counts]

    def close(self) -> None:
        """See BareLoop: it has no other process."""
