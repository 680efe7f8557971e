"""The folder of things made once per machine: unpacked wheels, converted models. Runs in our process.

An artifact is a folder that either exists whole or not at all: it is built beside its place and renamed. One lock file
for each name keeps two processes apart; the kernel drops the lock of a killed one, and the next removes its leftovers.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tritone.errors import ProvisionError

logger = logging.getLogger(__name__)

_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


def cache_dir() -> Path:
    """The absolute path of the cache: $TRITONE_CACHE, or the platform's usual place. It need not exist yet."""
    if chosen := os.environ.get("TRITONE_CACHE"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tritone"
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "tritone"


def cached(name: str) -> Path | None:
    """The folder of artifact `name` if it has been made already."""
    target = cache_dir() / name
    return target if target.is_dir() else None


def artifact(name: str, build: Callable[[Path], None]) -> Path:
    """The folder of artifact `name`, made by `build(empty folder)` if it is not there yet.

    Raises ProvisionError when the cache cannot be written or the disk is full, and whatever `build` raises.
    """
    if ready := cached(name):
        return ready
    with _explained(name), _exclusive(name):
        _remove_leftovers(name)
        made = cached(name) or _build(name, build)
        _remove_leftovers(name)  # again: the pip of a killed process may have gone on writing
        return made


def files_digest(files: Iterable[Path], *facts: str | int) -> str:
    """16 hex digits for the name of what is made from these files: others when one is changed, moved or replaced.

    `facts` is what it also depends on, such as the revision of what makes it.
    """
    stats = ((file.resolve(), file.stat()) for file in files)
    lines = [*map(str, facts), *(f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in stats)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def discard(name: str) -> None:
    """Remove artifact `name` if it is there, so that a kill half way never leaves a half-empty folder in its place."""
    if ready := cached(name):
        doomed = _sibling(name)
        with suppress(OSError):  # another process was quicker, or the cache is read-only
            ready.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _build(name: str, build: Callable[[Path], None]) -> Path:
    staging = _sibling(name)
    staging.mkdir()
    try:
        build(staging)
        return staging.rename(cache_dir() / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _sibling(name: str) -> Path:
    return cache_dir() / f".{name}.{uuid.uuid4().hex[:12]}"


def _remove_leftovers(name: str) -> None:
    for leftover in cache_dir().glob(f".{name}.{'?' * 12}"):
        shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def _exclusive(name: str) -> Iterator[None]:
    import fcntl  # absent on Windows, where this module must still import for `tritone doctor` to explain itself

    locks = cache_dir() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.warning("Waiting for another process that is preparing %s", name)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f"while preparing {name} in the cache {cache_dir()}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ProvisionError(
                f"the disk is full {where}: free some space, or set TRITONE_CACHE to a folder on another disk"
            ) from error
        if error.errno in _NOT_WRITABLE:
            raise ProvisionError(
                f"cannot write {error.filename or cache_dir()} {where} ({error.strerror}): "
                "set TRITONE_CACHE to a folder you may write"
            ) from error
        raise
