"""What docs/openai.md says of paths, codes and metrics is there, and nothing is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tritone.gateway import openai_error
from tritone.gateway.metrics import GatewayMetrics

from .fake_ensemble import FakeEnsemble
from .test_app import Served

PAGE = (Path(__file__).parents[4] / "docs" / "openai.md").read_text("utf-8")


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_every_endpoint_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(Served(monkeypatch, FakeEnsemble()).get("/openapi.json").body)
    listed = set(re.findall(r"`(?:GET|POST) (/[^`]+)`", section("Endpoints")))
    assert listed == {*document["paths"], "/openapi.json"}


def test_every_metric_is_listed() -> None:
    listed = set(re.findall(r"`(tritone:\w+)`", section("Metrics")))
    assert listed == set(re.findall(r"^# TYPE (\S+)", GatewayMetrics().text(), re.MULTILINE))


def test_every_status_and_code_is_listed() -> None:
    rows = [line.split("|")[1:3] for line in section("Errors").splitlines() if re.match(r"\| \d", line)]
    statuses = {int(status) for row in rows for status in row[0].split(",")}
    codes = {code for row in rows for code in re.findall(r"`(\w+)`", row[1])}
    kinds = openai_error._KINDS
    assert statuses >= set(kinds) - {403, 415}  # nothing raises these
    assert codes >= {kind.code for status, kind in kinds.items() if kind.code and status in statuses}
