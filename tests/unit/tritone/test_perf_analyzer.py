from __future__ import annotations

import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.unit.tritone.conftest import Steps
from tritone import perf_analyzer
from tritone.errors import ProvisionError
from tritone.perf_analyzer import find_perf_analyzer, installed_perf_analyzer

MakeWheel = Callable[[str, Mapping[str, str]], Path]
Script = Callable[[str, str], Path]

STARTS = "exit 0"
# As the binary of tritonclient does: it starts only where both libraries are found.
NEEDS_LIBRARIES = (
    'test -f "${LD_LIBRARY_PATH%%:*}/libb64.so.0d" -a -f "${LD_LIBRARY_PATH%%:*}/libcudart.so.12" '
    "|| { echo libb64.so.0d: cannot open shared object file >&2; exit 127; }"
)
IN_THE_WHEEL = "tritonclient-2.51.0.data/data/bin/perf_analyzer"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No perf_analyzer but those in `<tmp_path>/bin` (on PATH) and `<tmp_path>/venv`; a cached embedded Triton."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "venv"))
    libraries = tmp_path / "triton/nvidia_pytriton.libs"
    libraries.mkdir(parents=True)
    for name in ("libb64-98cb6333.so.0d", "libcudart-09529672.so.12.6.77"):
        (libraries / name).write_text(name)
    monkeypatch.setattr(perf_analyzer, "embedded_tree", lambda progress: tmp_path / "triton")


@pytest.fixture
def wheel_body(make_wheel: MakeWheel, fake_pip: Callable[[str], None]) -> Callable[[str], None]:
    """Makes pip hand out a tritonclient wheel whose perf_analyzer is this shell text."""

    def offer(body: str) -> None:
        wheel = make_wheel("tritonclient-2.51.0-py3-none-manylinux1_x86_64.whl", {IN_THE_WHEEL: f"#!/bin/sh\n{body}\n"})
        fake_pip(f'cp {wheel} "$folder"/')

    return offer


def test_one_on_path_that_starts_is_taken_as_it_is(script: Script, steps: Steps) -> None:
    binary = script("perf_analyzer", STARTS)
    found = find_perf_analyzer(steps)
    assert found.binary == binary
    assert "LD_LIBRARY_PATH" not in found.environment
    assert found == installed_perf_analyzer()


def test_one_that_does_not_start_gives_way_to_the_environments_own(
    script: Script, tmp_path: Path, steps: Steps
) -> None:
    script("perf_analyzer", "exit 1")
    own = script("own", STARTS)
    (tmp_path / "venv").mkdir()
    own.rename(tmp_path / "venv/perf_analyzer")
    assert find_perf_analyzer(steps).binary == tmp_path / "venv/perf_analyzer"


def test_installed_one_is_given_the_libraries_it_lacks(script: Script, cache: Path, steps: Steps) -> None:
    binary = script("perf_analyzer", NEEDS_LIBRARIES)
    assert installed_perf_analyzer() is None
    found = find_perf_analyzer(steps)
    assert found.binary == binary
    assert found.environment["LD_LIBRARY_PATH"] == str(cache / "perf-analyzer-libraries")
    assert (cache / "perf-analyzer-libraries/libcudart.so.12").read_text() == "libcudart-09529672.so.12.6.77"
    assert installed_perf_analyzer() == found


def test_without_any_the_wheel_is_fetched(wheel_body: Callable[[str], None], cache: Path, steps: Steps) -> None:
    wheel_body(NEEDS_LIBRARIES)
    found = find_perf_analyzer(steps)
    assert found.binary == cache / "perf-analyzer-2.51.0/perf_analyzer"
    assert installed_perf_analyzer() == found


def test_none_that_starts_quotes_the_loader(wheel_body: Callable[[str], None], steps: Steps) -> None:
    wheel_body("echo version GLIBC_2.99 not found >&2; exit 1")
    expected = r"no perf_analyzer starts here; the one of tritonclient-2\.51\.0 says: version GLIBC_2\.99 not found"
    with pytest.raises(ProvisionError, match=expected):
        find_perf_analyzer(steps)
