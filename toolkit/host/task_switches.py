"""The kernel's own count of a task's context switches: a second witness for the switch ledger.

Source: proc(5), ``voluntary_ctxt_switches`` and ``nonvoluntary_ctxt_switches`` in ``/proc/pid/status``.
"""

from __future__ import annotations

import re
from pathlib import Path

from toolkit.host.kernel_file import read_once

_THREADS = re.compile(rb"\nThreads:\s*(\d+)\n")
_SWITCHES = re.compile(rb"ctxt_switches:\s*(\d+)\n")


def context_switches(pid: int, root: Path = Path("/")) -> int | None:
    """Return how often the task was switched out since it began; ``None`` if it is gone."""
    found = switches_and_threads(pid, str(root))
    return None if found is None else found[0]


def switches_and_threads(tid: int, root: str) -> tuple[int, int] | None:
    """Return how often a task was switched out, and how many threads its process has; ``None`` if it is gone.

    0 threads: not reported. Bytes and plain paths: a window asks this twice of every thread of the machine.
    """
    text = _status(tid, root)
    if text is None:
        return None
    switches, threads = _SWITCHES.findall(text), _THREADS.search(text)
    return (sum(map(int, switches)), int(threads[1]) if threads else 0) if len(switches) == 2 else None


def _status(tid: int, root: str) -> bytes | None:
    return read_once(f"{root}/proc/{tid}/status", 1 << 14)
