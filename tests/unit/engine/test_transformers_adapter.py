"""The transformers engine where there is no PyTorch. The engine itself runs in tests/engines."""

from __future__ import annotations

import math
import os
import sys

import pytest

from engine.transformers_adapter import TransformersAdapter


def adapter(device: str) -> TransformersAdapter:
    return TransformersAdapter(
        model_path="m",
        max_num_seqs=4,
        dtype="auto",
        device=device,
        trust_remote_code=False,
        streaming_cpu_share=0.5,
        batch_wait_s=0.0,
    )


def test_without_pytorch_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "engine.static_batch", raising=False)
    with pytest.raises(RuntimeError, match=r"^the transformers engine needs torch and transformers: import of torch"):
        adapter("cpu").start()


@pytest.mark.parametrize(("device", "cores"), [("cpu", len(os.sched_getaffinity(0))), ("cuda", math.inf)])
def test_chunks_may_take_their_part_of_the_cores_that_the_engine_computes_on(device: str, cores: float) -> None:
    assert adapter(device).streaming_cores == 0.5 * cores
