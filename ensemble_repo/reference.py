"""The contract and the settings as Markdown, for docs/reference.md: `python -m ensemble_repo.reference`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .contract import CONTRACT, Tensor
from .settings import ADAPTERS, ENGINE, PREPROCESS, REQUIRED, STAGE_OPTIONS, Setting

HEAD = """# Reference

Made by `python -m ensemble_repo.reference`; a test fails when it is stale.
"""


def reference() -> str:
    """The whole page."""
    parts = [HEAD, "## What a client sends to the ensemble\n", _tensors("client", "preprocess")]
    parts += ["## What it gets back\n", _tensors("postprocess", "client")]
    parts += ["## Between the stages\n", _tensors("preprocess", "engine"), _tensors("engine", "postprocess")]
    parts += ["## Calls to the engine stage itself\n", _tensors("client", "engine")]
    parts += ["## Settings of every repository\n", _settings((*PREPROCESS, *STAGE_OPTIONS, *ENGINE))]
    for engine, settings in sorted(ADAPTERS.items()):
        parts += [f"## Settings of the {engine} engine\n", _settings(settings)]
    return "\n".join(parts)


def _tensors(source: str, reader: str) -> str:
    rows = [_tensor_row(tensor) for tensor in CONTRACT if (tensor.source, tensor.reader) == (source, reader)]
    return _table((f"{source} → {reader}", "type", "meaning"), rows)


def _tensor_row(tensor: Tensor) -> tuple[str, str, str]:
    dims = ", ".join("n" if dim < 0 else str(dim) for dim in tensor.dims)
    return f"`{tensor.name}`", f"{tensor.dtype} [{dims}]", tensor.help


def _settings(settings: tuple[Setting, ...]) -> str:
    return _table(("setting", "type", "default", "meaning"), [_setting_row(setting) for setting in settings])


def _setting_row(setting: Setting) -> tuple[str, str, str, str]:
    default = "required" if setting.default is REQUIRED else f"`{setting.default!r}`"
    allowed = f" ({', '.join(setting.choices)})" if setting.choices else ""
    return f"`{setting.name}`", setting.kind.__name__, default, setting.help + allowed


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
