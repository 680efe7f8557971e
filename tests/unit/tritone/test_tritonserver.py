from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.unit.tritone.conftest import Steps
from tritone import tritonserver
from tritone.errors import ProvisionError
from tritone.python_runtime import PYTHON_VERSION
from tritone.tritonserver import TritonInstall, cached_tritonserver, find_tritonserver, server_environment

MakeWheel = Callable[[str, Mapping[str, str]], Path]

TREE = "pytriton/tritonserver"
MEMBERS = {
    f"{TREE}/bin/tritonserver": "server",
    f"{TREE}/backends/python/libtriton_python.so": "backend",
    f"{TREE}/backends/python/triton_python_backend_utils.py": "utils",
    f"{TREE}/python_backend_stubs/{PYTHON_VERSION}/triton_python_backend_stub": "ours",
    f"{TREE}/python_backend_stubs/3.8/triton_python_backend_stub": "old\0libpython3-0123abcd.8.so.1.0\0stub",
    "nvidia_pytriton.libs/libtritonserver-1.so": "library",
    "pytriton/triton.py": "not wanted",
}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A supported machine with nothing but `<tmp_path>/bin` and the shell's tools on PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(tritonserver, "check_platform", lambda: None)
    monkeypatch.setattr(tritonserver, "libpython_dir", lambda: Path("/python/lib"))


@pytest.fixture
def pip_with_triton(make_wheel: MakeWheel, fake_pip: Callable[[str], None]) -> None:
    wheel = make_wheel("nvidia_pytriton-0.7.0-py3-none-manylinux_2_35_x86_64.whl", MEMBERS)
    fake_pip(f'cp {wheel} "$folder"/')


@pytest.mark.usefixtures("pip_with_triton")
def test_embedded_server_is_unpacked_with_a_backends_folder_for_each_python(cache: Path, steps: Steps) -> None:
    assert cached_tritonserver() is None
    install = find_tritonserver(steps)
    root = cache / "tritonserver-2.51.0"
    backends = root / TREE / f"backends-{PYTHON_VERSION}"
    libraries = (root / "nvidia_pytriton.libs", Path("/python/lib"))
    assert install == TritonInstall(root / TREE / "bin/tritonserver", backends, libraries, True, "2.51.0")
    assert os.access(install.binary, os.X_OK)
    assert {file.name: file.read_text() for file in (backends / "python").iterdir()} == {
        "libtriton_python.so": "backend",
        "triton_python_backend_utils.py": "utils",
        "triton_python_backend_stub": "ours",
    }
    assert sorted(entry.name for entry in (root / TREE).iterdir()) == sorted(["backends-3.8", backends.name, "bin"])
    assert not (root / "pytriton/triton.py").exists()
    assert cached_tritonserver() == install


@pytest.mark.usefixtures("pip_with_triton")
def test_a_stub_with_a_libpython_of_its_own_is_made_to_load_the_running_one(cache: Path, steps: Steps) -> None:
    find_tritonserver(steps)
    stub = cache / "tritonserver-2.51.0" / TREE / "backends-3.8/python/triton_python_backend_stub"
    padding = len("-0123abcd") * "\0"
    assert stub.read_text() == f"old\0libpython3.8.so.1.0\0{padding}stub"


@pytest.mark.usefixtures("pip_with_triton")
def test_python_without_a_stub_is_refused(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tritonserver, "PYTHON_VERSION", "3.99")
    with pytest.raises(ProvisionError, match=rf"has no stub for Python 3\.99; it has 3\.8, {PYTHON_VERSION}"):
        find_tritonserver(steps)


def test_nothing_is_fetched_where_the_embedded_server_cannot_run(
    fake_pip: Callable[[str], None], steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pip("exit 9")

    def refuse() -> None:
        raise ProvisionError("old glibc")

    monkeypatch.setattr(tritonserver, "check_platform", refuse)
    with pytest.raises(ProvisionError, match="old glibc"):
        find_tritonserver(steps)
    assert steps.seen == []


def _container_server(script: Callable[[str, str], Path], tmp_path: Path) -> Path:
    (tmp_path / "backends/python").mkdir(parents=True)
    return script("tritonserver", "exit 0")


def test_server_on_path_is_preferred(script: Callable[[str, str], Path], tmp_path: Path, steps: Steps) -> None:
    binary = _container_server(script, tmp_path)
    assert find_tritonserver(steps) == TritonInstall(binary, tmp_path / "backends", (), False, "unknown")
    (tmp_path / "TRITON_VERSION").write_text("2.60.0\n")
    assert find_tritonserver(steps).version == "2.60.0"


def test_server_on_path_without_python_backend_is_refused(
    script: Callable[[str, str], Path], tmp_path: Path, steps: Steps
) -> None:
    binary = script("tritonserver", "exit 0")
    with pytest.raises(ProvisionError, match=rf"\({binary}\) has no Python backend in {tmp_path / 'backends'}"):
        find_tritonserver(steps)


@pytest.mark.parametrize(
    ("library_path", "inherited", "expected"),
    [
        ((Path("/libs"), Path("/python")), "/mine", "/libs:/python:/mine"),
        ((Path("/libs"), Path("/python")), None, "/libs:/python"),
        ((), "/mine", "/mine"),
        ((), None, None),
    ],
)
def test_server_environment_leads_to_the_running_python(
    library_path: tuple[Path, ...], inherited: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PYTHONHOME", "/elsewhere")
    monkeypatch.setenv("KEPT", "yes")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    if inherited:
        monkeypatch.setenv("LD_LIBRARY_PATH", inherited)
    environment = server_environment(TritonInstall(Path("/t"), Path("/b"), library_path, True, "2.51.0"))
    assert environment["PATH"] == "/venv/bin:/usr/bin"
    assert environment.get("LD_LIBRARY_PATH") == expected
    assert environment["KEPT"] == "yes"
    assert not {"PYTHONPATH", "PYTHONHOME"} & environment.keys()
