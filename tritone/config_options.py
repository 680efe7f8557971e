"""The command-line options of Config, made from its fields, so that a default and its help stand in one place.

Runs in our process. pydantic takes long to import, so a command asks for its options only when it is the one that runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tritone.config import Config

_METAVARS = {"integer": "N", "number": "SECONDS", "string": "TEXT"}


class ConfiguredCommand(click.Command):
    """A command with an option for each field of Config, or only for those that shape the model repository."""

    def __init__(self, *args: Any, is_repository_only: bool = False, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._is_repository_only = is_repository_only

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters and those of Config; --help stays the last."""
        *own, help_option = super().get_params(ctx)
        return [*own, *self._options, help_option]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List what --set takes."""
        from tritone.settings_help import settings_help

        for title, rows in settings_help().items():
            with formatter.section(title):
                formatter.write_dl(rows)

    @cached_property
    def _options(self) -> list[click.Parameter]:
        from tritone.config import REPOSITORY_FIELDS, Config

        names = REPOSITORY_FIELDS if self._is_repository_only else Config.model_fields
        schemas = Config.model_json_schema()["properties"]
        fields = {name: schemas[name] for name in names if name not in ("model", "settings")}
        return [*(_option(name, schema) for name, schema in fields.items()), *_general_options()]


def config_from(given: Mapping[str, Any]) -> Config:
    """The Config from a command's parameters and this process's environment. Raises ConfigError."""
    from tritone.config_sources import load_config, parse_assignments

    options = dict(given)
    options["settings"] = parse_assignments(options.pop("set"))
    return load_config(options, os.environ)


def _option(name: str, schema: Mapping[str, Any]) -> click.Option:
    kind = schema.get("anyOf", [schema])[0]
    default = "" if schema["default"] is None else f"  [default: {schema['default']}]"
    metavar = "|".join(kind["enum"]) if "enum" in kind else _METAVARS[kind["type"]]
    return click.Option([f"--{name.replace('_', '-')}"], metavar=metavar, help=f"{schema['description']}.{default}")


def _general_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--set"],
            metavar="NAME=VALUE",
            multiple=True,
            help="Any other setting of the model repository, as JSON; may be given again.",
        ),
        click.Option(
            ["--config"], metavar="FILE.toml", help="Take options from here; [settings] holds those of --set."
        ),
    ]
