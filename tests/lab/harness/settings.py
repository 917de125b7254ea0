"""Where the lab keeps its files, and what this machine lacks to run it. Nothing here starts or builds anything."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

PROJECT = Path(__file__).resolve().parents[3]
TURN_S = 0.2
INSIDE = Path(__file__).resolve().parent / "inside"
NICENESS = 10
"""Guests are neighbours of whatever else runs on the build machine."""

HOST_TOOLS = {
    "mke2fs": "e2fsprogs",
    "modprobe": "kmod",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
    "setpriv": "util-linux",
}
"""Program on the host -> Debian package that has it."""


class LabUnavailableError(Exception):
    """The lab cannot run here; the message says what is missing and how to get it."""


def cache() -> Path:
    """Return the folder of packages, images, kernels and snapshots; always outside the repository."""
    chosen = os.environ.get("PINPROOF_LAB_CACHE")
    if chosen:
        return Path(chosen).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).resolve() / "pinproof-lab"


def tool(name: str) -> str:
    """Return the path of a host program; ``sbin`` is searched even where PATH leaves it out.

    :raises LabUnavailableError: naming the package.
    """
    path = found(name)
    if path is None:
        raise LabUnavailableError(f"{name} is not installed: apt-get install {HOST_TOOLS[name]}, or make lab-setup")
    return path


def found(name: str) -> str | None:
    """Return the path of a host program, ``None`` where it is not installed."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def guests_at_once() -> int:
    """Return how many guests may run side by side on this machine: ``$PINPROOF_LAB_GUESTS``, or one for two CPUs.

    Two CPUs have two: while one guest waits for its window to end, the other works.

    :raises LabUnavailableError: the variable holds no positive number.
    """
    chosen = os.environ.get("PINPROOF_LAB_GUESTS", "")
    if chosen and not (chosen.isdecimal() and int(chosen)):
        raise LabUnavailableError(f"PINPROOF_LAB_GUESTS is {chosen!r}, expected a positive number")
    cpus = len(os.sched_getaffinity(0))
    return int(chosen or max(min(2, cpus), cpus // 2))


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Hold one of the machine-wide turns, waiting until one is free: emulating many CPUs leaves room for few guests."""
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        locks = [stack.enter_context((folder / f"turn-{n}.lock").open("a")) for n in range(guests_at_once())]
        while not any(_taken(lock) for lock in locks):
            time.sleep(TURN_S)
        yield


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
