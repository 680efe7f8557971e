"""The bare engine is the adapter's engine."""

from __future__ import annotations

import inspect

from engine.openvino_adapter import load_pipeline
from ensemble_repo.settings import ADAPTERS


def test_takes_every_setting_of_the_adapter() -> None:
    assert set(inspect.signature(load_pipeline).parameters) == {setting.name for setting in ADAPTERS["openvino"]}
