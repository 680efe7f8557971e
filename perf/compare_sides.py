"""The sides of a comparison: all of Tritone with an engine, vLLM's own server, or any OpenAI address.

Runs on the load host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from perf.engine_choice import REAL_ENGINES, EngineChoice, adapter_settings, engine_choice, engine_settings
from perf.gateway_sides import OpenAISide, server_and_gateway
from perf.overhead_sides import Side
from perf.processes import server_processes, with_children
from perf.vllm_serve import VARIABLES, running_vllm, serve_options, variables_of
from tritone.bundled_model import BUNDLED_NAME, bundled_model
from tritone.config import ConfigError
from tritone.model_folder import describe_model
from tritone.served_model import ServedModel

Report = Callable[[str], None]

KNOWN = (*REAL_ENGINES, *VARIABLES)
_ADDRESS = re.compile(r"([\w.-]+)=(https?://[^,\s]+),(\S+)")


@dataclass(frozen=True)
class SideSpec:
    """One side by its name: an engine behind Tritone, a server of vLLM's, or with `url` a server that runs already."""

    name: str
    choice: EngineChoice | None = None
    url: str = ""
    model: str = BUNDLED_NAME
    _served: dict[int, ServedModel] = field(default_factory=dict, repr=False, compare=False)

    def served(self, max_num_seqs: int) -> ServedModel:
        """What is served, found once."""
        assert self.choice, "a side with an address serves what it serves"
        if max_num_seqs not in self._served:
            self._served[max_num_seqs] = self.choice.serve(max_num_seqs, has_prefix_caching=False)
        return self._served[max_num_seqs]

    def prepare(self, max_num_seqs: int) -> list[str]:
        """Fetch or convert what it needs, and tell with what it is started. Raises TritoneError or SettingError."""
        if not self.choice:
            return [f"{self.url} model={self.model}"]
        settings = self.served(max_num_seqs).settings
        if self.name in VARIABLES:
            variables = [f"{name}={value}" for name, value in variables_of(self.name).items()]
            return [*variables, *serve_options(engine_settings(settings))]
        return [f"{name}={json.dumps(value)}" for name, value in adapter_settings(settings).items()]

    @contextmanager
    def loaded(self, max_num_seqs: int, logs: Path) -> Iterator[Side]:
        """The side, ready; what a server of vLLM's says goes to the end of a file in `logs`."""
        if not self.choice:
            yield OpenAISide(self.name, self.url, {}, self.model)
        elif self.name in VARIABLES:
            settings = engine_settings(self.served(max_num_seqs).settings)
            with running_vllm(self.name, self.choice, settings, logs / f"{self.name}.log") as vllm:
                yield OpenAISide(self.name, vllm.url, with_children(self.name, psutil.Process(vllm.pid)))
        else:
            model = self.served(max_num_seqs)
            with server_and_gateway(model, max_num_seqs) as (server, gateway):
                ours = {**server_processes(server.pid, model.name), "gateway": psutil.Process(gateway.pid)}
                named = {f"{self.name}: {name}": process for name, process in ours.items()}
                yield OpenAISide(self.name, gateway.url, named)


@contextmanager
def loaded_sides(specs: Sequence[SideSpec], max_num_seqs: int, logs: Path, report: Report) -> Iterator[list[Side]]:
    """All sides at once."""
    with ExitStack() as stack:
        sides = []
        for spec in specs:
            report(f"loading {spec.name}")
            sides.append(stack.enter_context(spec.loaded(max_num_seqs, logs)))
        yield sides


def side_specs(names: Sequence[str], environment: Path | None, assignments: Sequence[str]) -> list[SideSpec]:
    """From the options of the command line. Raises ConfigError.

    A name is one of KNOWN, or NAME=URL,MODEL; `assignments` are ENGINE.NAME=VALUE, vLLM's for all sides with vLLM.
    """
    engines = {_engine_of(name) for name in names if name in KNOWN}
    settings: Mapping[str, list[str]] = {engine: [] for engine in engines}
    for assignment in assignments:
        engine, dot, rest = assignment.partition(".")
        if not dot or engine not in settings:
            raise ConfigError(
                f"--set: must be ENGINE.NAME=VALUE with one of {', '.join(sorted(engines))}, got {assignment!r}"
            )
        settings[engine].append(rest)
    specs = [_spec(name, environment, settings) for name in names]
    if len({spec.name for spec in specs}) < len(specs):
        raise ConfigError("--side: each name once")
    return specs


def vocab_size() -> int:
    """Of the bundled model."""
    return describe_model(bundled_model()).vocab_size


def _spec(name: str, environment: Path | None, settings: Mapping[str, Sequence[str]]) -> SideSpec:
    if name in KNOWN:
        engine = _engine_of(name)
        needs_own = engine not in ("openvino",)
        return SideSpec(name, engine_choice(engine, environment if needs_own else None, settings[engine]))
    match = _ADDRESS.fullmatch(name)
    if not match:
        raise ConfigError(f"--side: expected one of {', '.join(KNOWN)}, or NAME=URL,MODEL, got {name!r}")
    return SideSpec(match[1], url=match[2].rstrip("/"), model=match[3])


def _engine_of(name: str) -> str:
    return "vllm" if name in VARIABLES else name
