"""Finds the Triton server to start: the container's own, or the one embedded in the nvidia-pytriton wheel.

Runs in our process. The embedded one is unpacked once into the cache, with one backends folder for each Python the
wheel has a stub for: different Pythons may share the cache, and Triton wants the stub beside libtriton_python.so.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tritone.cache import cached
from tritone.errors import ProvisionError
from tritone.progress import Progress, show_progress
from tritone.python_runtime import PYTHON_VERSION, check_platform, libpython_dir
from tritone.wheels import PYTRITON, extract, members_under, wheel_artifact

EMBEDDED_VERSION = "2.51.0"
LIBRARIES = "nvidia_pytriton.libs"

# Python's own would mislead the stubs; keys are the gateway's alone
_NOT_PASSED = ("PYTHONPATH", "PYTHONHOME", "TRITONE_API_KEYS")
_ARTIFACT = f"tritonserver-{EMBEDDED_VERSION}"
_TREE = "pytriton/tritonserver"
_STUBS = f"{_TREE}/python_backend_stubs"
_BUNDLED_LIBPYTHON = re.compile(rb"libpython3-[0-9a-f]{8}\.(\d+\.so\.1\.0)\0")


@dataclass(frozen=True)
class TritonInstall:
    """A Triton server that can be started. `library_path` goes in front of LD_LIBRARY_PATH."""

    binary: Path
    backends_dir: Path
    library_path: tuple[Path, ...]
    is_embedded: bool
    version: str


def find_tritonserver(progress: Progress = show_progress) -> TritonInstall:
    """The tritonserver on PATH, else the embedded one, fetched on the first call (55 MB).

    Raises ProvisionError, saying what to do, where neither can be had.
    """
    if install := tritonserver_on_path():
        return install
    check_platform()
    libpython_dir()  # before the download, not after it
    return _embedded(embedded_tree(progress))


def tritonserver_on_path() -> TritonInstall | None:
    """The tritonserver on PATH, as in the NGC container; ProvisionError if it lacks the Python backend."""
    found = shutil.which("tritonserver")
    if found is None:
        return None
    binary = Path(found).resolve()
    root = binary.parent.parent
    if not (root / "backends" / "python").is_dir():
        raise ProvisionError(
            f"the tritonserver on PATH ({binary}) has no Python backend in {root / 'backends'}: "
            "install the backend there, or take this tritonserver off PATH to use the embedded one"
        )
    return TritonInstall(binary, root / "backends", (), is_embedded=False, version=_version_of(root))


def cached_tritonserver() -> TritonInstall | None:
    """The embedded tritonserver if it is in the cache already; nothing is fetched."""
    tree = cached(_ARTIFACT)
    return _embedded(tree) if tree else None


def embedded_tree(progress: Progress = show_progress) -> Path:
    """The unpacked nvidia-pytriton wheel (only its server and the libraries), fetched if it is not in the cache."""
    return wheel_artifact(_ARTIFACT, PYTRITON, lambda archive, folder: _unpack(archive, folder, progress), progress)


def server_environment(install: TritonInstall) -> dict[str, str]:
    """The environment variables to start `install` with: this one's, made to lead the stub to the running Python."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED}
    # Not resolved: in a virtual environment the link's own folder is the one that counts.
    environment["PATH"] = _joined(Path(sys.executable).parent, environment.get("PATH"))
    if install.library_path:
        environment["LD_LIBRARY_PATH"] = _joined(*install.library_path, environment.get("LD_LIBRARY_PATH"))
    return environment


def _embedded(tree: Path) -> TritonInstall:
    server = tree / _TREE
    backends = server / f"backends-{PYTHON_VERSION}"
    if not backends.is_dir():
        known = [path.name.removeprefix("backends-") for path in server.glob("backends-*")]
        listed = ", ".join(sorted(known, key=lambda version: int(version.split(".")[1])))
        raise ProvisionError(f"the embedded Triton has no stub for Python {PYTHON_VERSION}; it has {listed}")
    libraries = (tree / LIBRARIES, libpython_dir())
    return TritonInstall(server / "bin" / "tritonserver", backends, libraries, True, EMBEDDED_VERSION)


def _unpack(archive: zipfile.ZipFile, folder: Path, progress: Progress) -> None:
    names = members_under(archive, f"{_TREE}/bin/", f"{_TREE}/backends/python/", f"{_STUBS}/", f"{LIBRARIES}/")
    extract(archive, {name: folder / name for name in names}, progress)
    # The same depth as `backends/`, so that the libraries' relative search paths still hold.
    for stubs in (folder / _STUBS).iterdir():
        backend = folder / _TREE / f"backends-{stubs.name}" / "python"
        shutil.copytree(folder / _TREE / "backends" / "python", backend)
        for stub in stubs.iterdir():
            _unbundle_libpython(stub)
            stub.rename(backend / stub.name)
    shutil.rmtree(folder / _STUBS)
    shutil.rmtree(folder / _TREE / "backends")


def _unbundle_libpython(stub: Path) -> None:
    """Let the stub load the libpython of the running Python, as every stub but that for 3.13 does.

    That one loads a copy in the wheel, under a name of its own. Another build has other modules compiled in: on Debian
    13 `import math` then fails. The right name is shorter, so it can be written over the other in the ELF string table.
    """
    binary = stub.read_bytes()
    stub.write_bytes(_BUNDLED_LIBPYTHON.sub(lambda name: (b"libpython3." + name[1]).ljust(len(name[0]), b"\0"), binary))


def _version_of(root: Path) -> str:
    stated = root / "TRITON_VERSION"
    return stated.read_text().strip() if stated.is_file() else "unknown"


def _joined(*parts: Path | str | None) -> str:
    return os.pathsep.join(str(part) for part in parts if part)
