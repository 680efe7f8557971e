"""The two ensembles that a pipeline benchmark compares: how each is written, called, and its tokens counted.

Runs on the load host. Both get the same scripted engine at the same rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ensemble_repo.assemble import assemble
from perf.export import Outputs, cumulative
from perf.runs import Point
from tritone.bundled_model import BUNDLED_NAME, bundled_model
from tritone.model_folder import describe_model


class Ensemble(Protocol):
    """One side of the comparison."""

    name: str
    model: str

    def write(self, target: Path, point: Point, trace_file: str) -> None:
        """Write the model repository to the folder `target`, which is not there yet."""

    def inputs(self, prompt: str, max_tokens: int) -> Mapping[str, Any]:
        """The inputs of one request that streams exactly `max_tokens` tokens."""

    def count_tokens(self, outputs: Outputs) -> list[int]:
        """The new tokens in each response of a request."""


class TritoneEnsemble:
    """Ours, with the tokenizer of the bundled model."""

    name = "tritone"
    model = BUNDLED_NAME

    def write(self, target: Path, point: Point, trace_file: str) -> None:
        """See Ensemble."""
        model = describe_model(bundled_model())
        settings = {
            "engine": "scripted",
            "max_model_len": model.max_position_embeddings,
            "vocab_size": model.vocab_size,
            "max_num_seqs": point.streams,
            "tokens_per_second": point.rate,
            "trace_file": trace_file,
        }
        assemble(target, self.model, model.tokenizer_dir, settings)

    def inputs(self, prompt: str, max_tokens: int) -> Mapping[str, Any]:
        """See Ensemble."""
        return {"text_input": [prompt], "max_tokens": [max_tokens], "ignore_eos": [True], "stream": [True]}

    def count_tokens(self, outputs: Outputs) -> list[int]:
        """See Ensemble."""
        return cumulative(outputs)
