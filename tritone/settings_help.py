"""What `--set` takes, for the help of the commands that have it. Runs in our process."""

from __future__ import annotations

from collections.abc import Iterable

from ensemble_repo.settings import ADAPTERS, ENGINE, POSTPROCESS, PREPROCESS, REQUIRED, STAGE_OPTIONS, Setting
from tritone.served_model import HAVE_A_PLACE


def settings_help() -> dict[str, list[tuple[str, str]]]:
    """Sections of (name, help): the stages' settings, then those of each engine."""
    stages = (*PREPROCESS, *STAGE_OPTIONS, *ENGINE)
    tables: dict[str, Iterable[Setting]] = {
        "Settings for --set": {row.name: row for row in (*stages, *POSTPROCESS)}.values()
    }
    tables |= {f"Settings with --engine {engine}": table for engine, table in ADAPTERS.items()}
    return {title: [_row(row) for row in table if row.name not in HAVE_A_PLACE] for title, table in tables.items()}


def _row(setting: Setting) -> tuple[str, str]:
    default = "" if setting.default is REQUIRED else f"  [default: {setting.default!r}]"
    return setting.name, f"{setting.help}{default}"
