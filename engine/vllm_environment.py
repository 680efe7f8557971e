"""The environment variables that vLLM and its processes are given. What is set already stays."""

from __future__ import annotations

QUIET = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "SPT_NOENV": "1",
}
"""Nothing is fetched or reported; processes do not start as copies of this one, and keep their environment when they
change their names."""

SHARED_CPU = {
    "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    "GOMP_SPINCOUNT": "2000",
}
"""For an engine that computes on the cores of those who serve it: all cores, as chunks take far less than the one that
vLLM would keep for its server; and OpenMP threads that soon sleep when they wait, as others could use the core."""
