"""The engines behind the adapter, by name. Each is imported only when it is the one that runs."""

from __future__ import annotations

import importlib
from typing import Any

from .adapter import EngineAdapter

ADAPTERS = {
    "openvino": ("openvino_adapter", "OpenVinoAdapter"),
    "scripted": ("scripted_adapter", "ScriptedAdapter"),
    "transformers": ("transformers_adapter", "TransformersAdapter"),
    "vllm": ("vllm_adapter", "VllmAdapter"),
}


def make_adapter(name: str, settings: dict[str, Any]) -> EngineAdapter:
    """The adapter called `name`, not yet started. `settings` are the engine's own, checked when assembled."""
    module_name, class_name = ADAPTERS[name]
    module = importlib.import_module(f".{module_name}", __package__)
    adapter: EngineAdapter = getattr(module, class_name)(**settings)
    return adapter
