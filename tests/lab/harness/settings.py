"""Where the lab keeps its files, and what this machine lacks to run it. Nothing here starts or builds anything."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
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
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise LabUnavailableError(f"{name} is not installed: apt-get install {HOST_TOOLS[name]}, or make lab-setup")
    return found


@contextlib.contextmanager
def one_guest_at_a_time() -> Iterator[None]:
    """Hold the machine-wide turn: software emulation of many CPUs leaves room for one guest only."""
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "turn.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
