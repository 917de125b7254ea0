"""What one guest compiled is there for the next with the same kernel: a compiler works half a minute in an emulator.

pinproof itself keeps what it compiled, under a key of everything that it was made from: the sources, their settings,
the compiler, and the kernel (``probes/unit.py``). So what is handed on is never stale; it can only be of no use.
"""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

from probes.unit import CACHE, KEPT
from tests.lab.harness import settings
from tests.lab.harness.guest import Guest
from toolkit.disk import write_atomically

PLACE = f"/{CACHE}"


@contextlib.contextmanager
def store(release: str) -> Iterator[Path]:
    """Hold the folder in which the host keeps what guests with this kernel compiled: guests run side by side."""
    kept = settings.cache() / f"compiled-{release}"
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield kept


def newest(kept: Path) -> list[Path]:
    """Return the units that a guest has room for: it keeps ``KEPT`` with one of its own, and removes the oldest."""
    return sorted(kept.glob("*.json"), key=lambda one: one.stat().st_mtime_ns)[-(KEPT - 1) :]


def give(guest: Guest) -> None:
    """Put what earlier guests compiled into this one."""
    with store(guest.release) as kept:
        units = {path.name: path.read_bytes() for path in newest(kept)}
    if units:
        guest.put(units, PLACE)


def take(guest: Guest) -> None:
    """Keep what this guest compiled; what no guest would be given any more goes."""
    names = {name for name in guest.sh(f"ls {PLACE} 2>/dev/null || true").split() if name.endswith(".json")}
    with store(guest.release) as kept, tempfile.TemporaryDirectory() as place:
        new = names - {path.name for path in kept.iterdir()}
        found = guest.get(PLACE, Path(place)).iterdir() if new else ()
        for path in sorted(found, key=lambda one: one.stat().st_mtime_ns):
            if path.name in new:
                write_atomically(kept / path.name, path.read_text())
        for path in set(kept.glob("*.json")) - set(newest(kept)):
            path.unlink()
