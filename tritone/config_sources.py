"""Reads a configuration: options over environment over file over default. Runs in our process, once, at start.

Every source is checked on its own, so that an error names the option, variable or key as the user wrote it, and all
errors are told at once.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tritone.config import Config, ConfigError
from tritone.gateway.settings import GatewayConfig

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

PREFIX = "TRITONE_"
GATEWAY_PREFIX = "TRITONE_GATEWAY_"  # of the variables of tritone/gateway/settings.py

# read elsewhere: the cache by tritone/cache.py, the run folder by the stages, keys by tritone/gateway/auth.py
_OTHER_VARIABLES = ("TRITONE_CACHE", "TRITONE_RUN_DIR", "TRITONE_API_KEYS")
# Kubernetes gives every pod NAME=VALUE like these for a service called "tritone" or "tritone-…"
_SERVICE_VARIABLE = re.compile(r"TRITONE_(.*_)?(SERVICE_(HOST|PORT.*)=.*|PORT_\d+_(TCP|UDP).*|PORT=(tcp|udp)://.*)")
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")


M = TypeVar("M", bound=BaseModel)

_TABLES = ("settings", "gateway")  # fields that are tables: those of several sources are merged


@dataclass(frozen=True)
class Source:
    """One place values come from. `label` (a variable: `prefix`) with a field's name is how a user calls it there."""

    label: str
    values: dict[str, Any]
    is_text: bool  # every value but a table is a string still to be parsed
    prefix: str = PREFIX

    def name(self, field: str) -> str:
        """A field as it is called in this source."""
        if self.label == "option":
            return "MODEL" if field == "model" else f"--{field.replace('_', '-')}"
        return self.prefix + field.upper() if self.label == "environment" else f"{self.label}: {field}"


def load_config(options: Mapping[str, Any], environment: Mapping[str, str]) -> Config:
    """The configuration from command-line `options` (field: text, `settings`: values, `config`: the TOML file's path;
    None where not given), the process's `environment`, and the file. Raises ConfigError listing everything wrong.
    """
    return _merged(Config, _sources(Config, PREFIX, options, environment))


def load_gateway(
    options: Mapping[str, Any], environment: Mapping[str, str], table: Mapping[str, Any] | None = None
) -> GatewayConfig:
    """The gateway's configuration, from the same kinds of sources; `table` is one more, which all others win over."""
    sources = _sources(GatewayConfig, GATEWAY_PREFIX, options, environment)
    return _merged(GatewayConfig, [Source("gateway", dict(table or {}), is_text=False), *sources])


def _sources(
    model: type[BaseModel], prefix: str, options: Mapping[str, Any], environment: Mapping[str, str]
) -> list[Source]:
    """File, environment and options, in the order in which they win over what was before."""
    given = Source("option", {name: value for name, value in options.items() if value is not None}, is_text=True)
    variables = _environment(model, prefix, environment)
    path = given.values.pop("config", None) or variables.values.pop("config", None)
    return [*([_file(Path(path))] if path else []), variables, given]


def _merged(model: type[M], sources: Iterable[Source]) -> M:
    problems: list[str] = []
    merged: dict[str, Any] = {}
    for source in sources:
        for name, value in _checked(model, source, problems).items():
            merged[name] = {**merged.get(name, {}), **value} if name in _TABLES else value
    if problems:
        raise ConfigError("; ".join(problems))
    return model(**merged)


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Settings from NAME=VALUE texts; a VALUE that is not JSON is a string. Raises ConfigError."""
    settings: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not (equals and name):
            raise ConfigError(f"--set: must be NAME=VALUE, got {assignment!r}")
        settings[name] = _json_or_text(text)
    return settings


def _environment(model: type[BaseModel], prefix: str, environment: Mapping[str, str]) -> Source:
    known = {prefix + field.upper(): field for field in [*model.model_fields, "config"]}
    values: dict[str, Any] = {}
    for name, value in environment.items():
        if not name.startswith(prefix) or name in _OTHER_VARIABLES or _SERVICE_VARIABLE.match(f"{name}={value}"):
            continue
        if name in known:
            values[known[name]] = _json_object(name, value) if known[name] in _TABLES else value
        elif prefix == GATEWAY_PREFIX or not name.startswith(GATEWAY_PREFIX):
            raise ConfigError(f"environment: {_unknown(name, [*known, *_OTHER_VARIABLES])}")
    return Source("environment", values, is_text=True, prefix=prefix)


def _file(path: Path) -> Source:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"--config: {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"--config: {path} is not valid TOML: {error}") from error
    return Source(str(path), values, is_text=False)


def _checked(model: type[BaseModel], source: Source, problems: list[str]) -> dict[str, Any]:
    """The values given in `source`, as typed values; what is wrong is added to `problems`."""
    values = dict(source.values)
    found = [f"{source.name(place)}: nothing was filled in for {text}" for place, text in _placeholders(values)]
    tables = {name: values.pop(name) for name in _TABLES if name in values} if source.is_text else {}
    try:
        config = model.model_validate_strings(values) if source.is_text else model.model_validate(values)
    except ValidationError as error:
        problems += found + [_sentence(model, source, details) for details in error.errors()]
        return {}
    problems += found
    return {**{name: getattr(config, name) for name in config.model_fields_set}, **tables}


def _placeholders(values: Mapping[str, Any], within: str = "") -> list[tuple[str, str]]:
    """(field, placeholder) for every `${…}` that a template has left behind, unless it is the name of a real file."""
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _placeholders(value, f"{within}{name}.")
        elif isinstance(value, str) and (match := _PLACEHOLDER.search(value)) and not Path(value).exists():
            found.append((f"{within}{name}", match[0]))
    return found


def _sentence(model: type[BaseModel], source: Source, details: Mapping[str, Any]) -> str:
    field = str(details["loc"][0])
    if details["type"] == "extra_forbidden":
        return f"{source.label}: {_unknown(field, list(model.model_fields))}"
    rule = (
        str(details["msg"])
        .removeprefix("Value error, ")
        .replace("Input should", "must")
        .replace("String should", "must")
    )
    return f"{source.name(field)}: {rule}, got {details['input']!r}"


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"{name} is unknown{hint}; known are {', '.join(known)}"


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _json_object(variable: str, text: str) -> dict[str, Any]:
    value = _json_or_text(text)
    if not isinstance(value, dict):
        raise ConfigError(f"{variable}: must be a JSON object, got {text!r}")
    return value
