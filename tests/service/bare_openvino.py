"""OpenVINO GenAI by its own API, with nothing of ours around it: what the engine is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import openvino_genai

from engine.adapter import EngineRequest
from engine.openvino_adapter import generation_config


def bare_ids(model: Path, prompt: Sequence[int], count: int, properties: Mapping[str, str]) -> list[int]:
    """The ids that it makes of the prompt, chosen greedily."""
    pipeline = load(model, properties)
    handle = add(pipeline, prompt, count)
    ids: list[int] = []
    while pipeline.has_non_finished_requests():
        pipeline.step()
        while handle.can_read():
            ids += next(iter(handle.read().values())).generated_ids
    return ids


def load(model: Path, properties: Mapping[str, str]) -> Any:
    """The pipeline of a GGUF file or an OpenVINO folder."""
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 1
    return openvino_genai.ContinuousBatchingPipeline(str(model), scheduler, "CPU", dict(properties))


def add(pipeline: Any, prompt: Sequence[int], count: int) -> Any:
    """The handle of a request for `count` ids."""
    config = generation_config(EngineRequest(1, tuple(prompt), count))
    return pipeline.add_request(1, openvino.Tensor(np.array([prompt], np.int64)), config)
