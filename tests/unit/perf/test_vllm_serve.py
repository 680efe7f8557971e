"""vLLM's own server gets the adapter's settings as options."""

from __future__ import annotations

from typing import Any

import pytest

from perf.vllm_serve import serve_options
from tritone.errors import TritoneError

SETTINGS: dict[str, Any] = {
    "model_path": "/model",
    "max_model_len": 8192,
    "max_num_seqs": 32,
    "kv_cache_gib": 1,
    "lora_modules": {},
    "trust_remote_code": False,
    "enforce_eager": True,
    "dtype": "bfloat16",
    "gpu_memory_utilization": 0.4,
    "compilation_config": {"mode": 0},
}


def test_options_of_the_settings() -> None:
    assert serve_options(SETTINGS) == [
        "--model=/model",
        "--served-model-name=smollm2",
        "--max-num-seqs=32",
        "--kv-cache-memory-bytes=1073741824",
        "--generation-config=vllm",
        "--disable-log-stats",
        "--disable-uvicorn-access-log",
        "--max-model-len=8192",
        "--no-trust-remote-code",
        "--enforce-eager",
        "--dtype=bfloat16",
        "--gpu-memory-utilization=0.4",
        '--compilation-config={"mode": 0}',
    ]


def test_adapters_are_refused() -> None:
    with pytest.raises(TritoneError, match="--set: lora_modules is not to be set here"):
        serve_options({**SETTINGS, "lora_modules": {"german": "/german"}})
