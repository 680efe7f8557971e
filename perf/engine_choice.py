"""Which engine a benchmark runs with the bundled model, and how: one choice for both of its sides.

Runs on the load host.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ensemble_repo.assemble import stage_parameters
from ensemble_repo.settings import ADAPTERS, ENGINE
from perf.environment import SOURCE
from tritone.config import Config, ConfigError
from tritone.config_sources import parse_assignments
from tritone.engine_env import check_engine_env
from tritone.served_model import HAVE_A_PLACE, ServedModel, check_settings, find_model
from tritone.tritonserver import find_tritonserver

REAL_ENGINES = tuple(name for name in ADAPTERS if name != "scripted")
OWN_ENVIRONMENT = {"vllm": SOURCE / ".venv-vllm", "transformers": SOURCE / ".venv-vllm"}
"""Where `make serve` puts the libraries of an engine that has an environment of its own."""

# said, as a default may depend on the memory that the other side has left, or on how the engine is started
KV_CACHE_GIB = 1
MAX_NUM_BATCHED_TOKENS = 2048
NOT_THE_ENGINES = ("batch_wait_s", "streaming_cpu_share")
"""Settings of adapters that are about requests and streams: an engine by itself has nothing of the kind."""


@dataclass(frozen=True)
class EngineChoice:
    """An engine, the virtual environment it runs in (None: this one), and the user's settings."""

    name: str
    environment: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        """The Python that has the engine's libraries."""
        return self.environment.absolute() / "bin" / "python" if self.environment else Path(sys.executable)

    def serve(self, max_num_seqs: int, has_prefix_caching: bool = True) -> ServedModel:
        """What is served, fetched or converted if need be; sampling defaults are neutral, as those of bare engines.

        Raises TritoneError or SettingError.
        """
        names = [setting.name for setting in ADAPTERS[self.name]]
        settings: dict[str, Any] = {"generation_config": "none"}
        if self.name == "vllm":
            settings |= {"max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS, "dtype": "bfloat16"}
        if self.name != "transformers" and not has_prefix_caching:
            settings["enable_prefix_caching"] = False
        given = {
            "engine": self.name,
            "engine_env": str(self.environment) if self.environment else None,
            "max_num_seqs": max_num_seqs,
            "kv_cache_gib": KV_CACHE_GIB if "kv_cache_gib" in names else None,
            "settings": {**settings, **self.settings},
        }
        config = Config.model_validate(given)
        check_settings(config)
        check_engine_env(self.name, self.environment, find_tritonserver())
        return find_model(config)


def engine_choice(name: str, environment: Path | None, assignments: Sequence[str]) -> EngineChoice:
    """From the options of the command line. Raises ConfigError for a setting that the benchmark makes itself."""
    settings = parse_assignments(assignments)
    for setting in settings:
        if setting in HAVE_A_PLACE:
            raise ConfigError(f"--set: {setting} is not to be set here: the benchmark does, the same for both sides")
    usual = OWN_ENVIRONMENT.get(name)
    return EngineChoice(name, environment or (usual if usual and usual.is_dir() else None), settings)


def adapter_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of a model repository's settings those of the engine's adapter, with their defaults."""
    stages = [setting.name for setting in ENGINE]
    parameters = stage_parameters(settings)["engine"]
    return {name: value for name, value in parameters.items() if name not in stages}


def engine_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of a model repository's settings those that an engine has by itself, too."""
    return {name: value for name, value in adapter_settings(settings).items() if name not in NOT_THE_ENGINES}
