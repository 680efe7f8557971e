"""Pipelines that many tests share; they hold no state between requests."""

from __future__ import annotations

import pytest

from preprocess.pipeline import Pipeline
from tests.unit.preprocess.toy_models import load, write_bos_model, write_model


@pytest.fixture(scope="session")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return load(write_model(tmp_path_factory.mktemp("byte_level")))


@pytest.fixture(scope="session")
def with_bos(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return load(write_bos_model(tmp_path_factory.mktemp("with_bos")))
