"""The bare engine is the adapter's engine."""

from __future__ import annotations

import inspect

from engine.openvino_adapter import load_pipeline
from perf.overhead_sides import PIPELINE_SETTINGS


def test_takes_every_setting_of_the_adapters_pipeline() -> None:
    assert set(inspect.signature(load_pipeline).parameters) == set(PIPELINE_SETTINGS)
