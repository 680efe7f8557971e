"""vLLM's own server gets the adapter's settings as options."""

from __future__ import annotations

from typing import Any

import pytest

from perf.vllm_serve import serve_options, variables_of
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


def test_only_the_tuned_server_has_the_environment_that_is_for_shared_cores(monkeypatch) -> None:
    for name in ("HF_HUB_OFFLINE", "VLLM_CPU_NUM_OF_RESERVED_CPU", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    as_it_comes, tuned = variables_of("vllm-serve"), variables_of("vllm-serve-tuned")
    assert as_it_comes["HF_HUB_OFFLINE"] == "1"
    assert {name: value for name, value in tuned.items() if name not in as_it_comes} == {
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "GOMP_SPINCOUNT": "2000",
    }


def test_what_the_user_set_stays(monkeypatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    assert variables_of("vllm-serve-tuned")["GOMP_SPINCOUNT"] == "7"
