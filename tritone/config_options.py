"""The command-line options of a configuration, made from its fields: a default and its help stand in one place.

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
    from tritone.gateway.settings import GatewayConfig

_METAVARS = {"integer": "N", "number": "SECONDS", "string": "TEXT", "array": "LIST", "boolean": "true|false"}


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
        fields = {name: schemas[name] for name in names if name not in ("model", "settings", "gateway")}
        return [*(_option(name, schema) for name, schema in fields.items()), *_general_options()]


class GatewayCommand(click.Command):
    """A command with an option for each field of GatewayConfig."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The options; --help stays the last."""
        return [*self._options, *super().get_params(ctx)]

    @cached_property
    def _options(self) -> list[click.Parameter]:
        from tritone.gateway.settings import GatewayConfig

        schemas = GatewayConfig.model_json_schema()["properties"]
        return [*(_option(name, schema) for name, schema in schemas.items()), _file_option("Take options from here.")]


def config_from(given: Mapping[str, Any]) -> Config:
    """The Config from a command's parameters and this process's environment. Raises ConfigError."""
    from tritone.config_sources import load_config, parse_assignments

    options = dict(given)
    options["settings"] = parse_assignments(options.pop("set"))
    return load_config(options, os.environ)


def gateway_config_from(given: Mapping[str, Any]) -> GatewayConfig:
    """The GatewayConfig from a command's parameters and this process's environment. Raises ConfigError."""
    from tritone.config_sources import load_gateway

    return load_gateway(given, os.environ)


def _option(name: str, schema: Mapping[str, Any]) -> click.Option:
    kind = schema.get("anyOf", [schema])[0]
    option, help_text = f"--{name.replace('_', '-')}", f"{schema['description']}."
    if schema["default"] is False:
        return click.Option([option], flag_value="true", help=help_text)
    default = "" if schema["default"] in (None, []) else f"  [default: {schema['default']}]"
    metavar = "|".join(map(str, kind["enum"])) if "enum" in kind else _METAVARS[kind["type"]]
    return click.Option([option], metavar=metavar, help=help_text + default)


def _general_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--set"],
            metavar="NAME=VALUE",
            multiple=True,
            help="Any other setting of the model repository, as JSON; may be given again.",
        ),
        _file_option("Take options from here; [settings] holds those of --set, [gateway] those of the gateway."),
    ]


def _file_option(help_text: str) -> click.Option:
    return click.Option(["--config"], metavar="FILE.toml", help=help_text)
