"""vLLM's own OpenAI server, with the engine settings of the vllm adapter. Runs on the load host.

Beyond those it is told nothing but where to listen, what to call the model, and to log no requests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from engine.vllm_environment import QUIET, SHARED_CPU
from perf.child_process import child_process, last_words, wait_until_answers
from perf.engine_choice import EngineChoice
from perf.server import HOST, READY_TIMEOUT_S, free_ports
from tritone.bundled_model import BUNDLED_NAME
from tritone.errors import TritoneError

MODULE = "vllm.entrypoints.openai.api_server"
GIB = 1 << 30
OURS = ("model_path", "max_num_seqs", "kv_cache_gib", "lora_modules")
"""Settings of the adapter that are not vLLM's by name."""

AS_IT_COMES = "vllm-serve"
TUNED = "vllm-serve-tuned"
VARIABLES = {AS_IT_COMES: QUIET, TUNED: {**QUIET, **SHARED_CPU}}
"""By the name of the side: as vLLM's users start it, and with the environment of the adapter."""


class RunningVllm(NamedTuple):
    """A server that is ready."""

    pid: int
    url: str


@contextmanager
def running_vllm(name: str, choice: EngineChoice, settings: Mapping[str, Any], log: Path) -> Iterator[RunningVllm]:
    """The server `name` of VARIABLES, with the `settings` of the vllm adapter; what it says goes to the end of `log`.

    Raises TritoneError.
    """
    (port,) = free_ports(1)
    url = f"http://{HOST}:{port}"
    arguments = ["-m", MODULE, f"--host={HOST}", f"--port={port}", *serve_options(settings)]
    with child_process(choice.python, arguments, log.parent, log, variables=variables_of(name)) as process:
        try:
            wait_until_answers(f"{url}/health", process, name, READY_TIMEOUT_S)
        except TritoneError as error:
            raise TritoneError(f"{error}: {last_words(log)} (all it said is in {log})") from error
        yield RunningVllm(process.pid, url)


def variables_of(name: str) -> dict[str, str]:
    """The environment variables of the server `name` of VARIABLES. What is set already stays."""
    return {variable: os.environ.get(variable, value) for variable, value in VARIABLES[name].items()}


def serve_options(settings: Mapping[str, Any]) -> list[str]:
    """The command line's options for the `settings` of the vllm adapter, as engine/vllm_adapter.py passes them on.

    Raises TritoneError for LoRA adapters.
    """
    if settings["lora_modules"]:
        raise TritoneError("--set: lora_modules is not to be set here: the bundled model has no adapters")
    theirs = {name: value for name, value in settings.items() if name not in OURS}
    return [
        f"--model={settings['model_path']}",
        f"--served-model-name={BUNDLED_NAME}",
        f"--max-num-seqs={settings['max_num_seqs']}",
        f"--kv-cache-memory-bytes={settings['kv_cache_gib'] * GIB}",
        "--generation-config=vllm",
        "--disable-log-stats",
        "--disable-uvicorn-access-log",
        *(_option(name, value) for name, value in theirs.items()),
    ]


def _option(name: str, value: Any) -> str:
    dashed = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{dashed}" if value else f"--no-{dashed}"
    return f"--{dashed}={value if isinstance(value, str) else json.dumps(value)}"
