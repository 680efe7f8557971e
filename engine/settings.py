"""The engine stage's settings, as `assemble` wrote them into config.pbtxt."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import Any

TRITONS = ("EXECUTION_ENV_PATH",)
"""Parameters that are the Python backend's own."""


@dataclass(frozen=True)
class EngineSettings:
    """What the stage itself reads; everything else is the adapter's."""

    engine: str
    ack_timeout_s: float
    heartbeat_s: float
    max_streams: int
    run_dir: str
    adapter: dict[str, Any] = field(default_factory=dict)


def parse_settings(parameters: dict[str, dict[str, str]]) -> EngineSettings:
    """From the `parameters` of the model's config."""
    ours = {name: value for name, value in parameters.items() if name not in TRITONS}
    values = {name: json.loads(parameter["string_value"]) for name, parameter in ours.items()}
    own = {name: values.pop(name) for name in list(values) if name in EngineSettings.__dataclass_fields__}
    own["run_dir"] = own["run_dir"] or os.environ.get("TRITONE_RUN_DIR") or tempfile.gettempdir()
    return EngineSettings(**own, adapter=values)
