"""The postprocess stage's settings, as `assemble` wrote them into config.pbtxt."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass


@dataclass(frozen=True)
class PostprocessSettings:
    """`run_dir` is where the engine's stream table lies."""

    run_dir: str


def parse_settings(parameters: dict[str, dict[str, str]]) -> PostprocessSettings:
    """From the `parameters` of the model's config."""
    values = {name: json.loads(parameter["string_value"]) for name, parameter in parameters.items()}
    values["run_dir"] = values["run_dir"] or os.environ.get("TRITONE_RUN_DIR") or tempfile.gettempdir()
    return PostprocessSettings(**values)
