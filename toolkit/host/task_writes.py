"""How often a process has written: the kernel's own count of what it has done.

Source: proc(5), ``syscw`` in ``/proc/pid/io`` (CONFIG_TASK_IO_ACCOUNTING).
"""

from __future__ import annotations

import re
from pathlib import Path

from toolkit.host.kernel_file import read_once

_WRITES = re.compile(rb"^syscw:\s*(\d+)$", re.MULTILINE)


def writes(pid: int, root: Path = Path("/")) -> int | None:
    """Return how many write system calls the process has made; ``None``: it is gone, or the kernel does not count."""
    found = _WRITES.search(read_once(f"{root}/proc/{pid}/io", 1 << 12) or b"")
    return None if found is None else int(found[1])
