"""Limits of this process that loading programs and watching every CPU needs to be wide.

Source: setrlimit(2), proc_sys_fs(5). A service begins with 1,024 open files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from pathlib import Path

from toolkit.errors import HostUnsupportedError

OPEN_FILES = 1 << 16
"""Enough for every CPU that a machine may have. Not the hard limit, which some hosts set to 2^30: what we start
inherits it, and some programs close every number up to it before they begin."""
ALL_BUT_CPUS = 256
"""Programs, their maps and their links are some 90, ends of windows, loads and canaries some 30 at a time; control
files that stay open take a part of what there is (:mod:`toolkit.host.kept_files`), which leaves a quarter."""
_FILE_MAX = "proc/sys/fs/file-max"
_TEXT = "ulimit -n {0}, LimitNOFILE={0} in the service, --ulimit nofile={0} of a container"


def widen(open_files: int = OPEN_FILES) -> None:
    """Lift the limit of locked memory, and raise that of open files as far as we may.

    Kernels before 5.11 charge maps to locked memory. What does not work is left to the load, which says what it lacks.
    """
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    boundless = resource.RLIM_INFINITY
    if soft == boundless or soft >= open_files:
        return
    # The hard limit, too, where we may: of control files that cannot stay open each is opened at every reading.
    may_raise = (open_files, hard if hard == boundless else max(hard, open_files))
    may_not = (open_files if hard == boundless else min(open_files, hard), hard)
    for wanted in (may_raise, may_not):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, wanted)
            return


def needed_files() -> int:
    """Return how many files an observer may have open at once: one for each CPU (its sampler), and all else."""
    return ALL_BUT_CPUS + (os.cpu_count() or 1)


def files_found() -> str:
    """Say how many files this process may open, and how many it needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _number(soft) if soft == hard else f"{_number(soft)} (hard limit: {_number(hard)})"
    return f"this process may have {limit} open at once; {needed_files()} are needed"


def files_remedy() -> str:
    """Say how to get as many files as are needed."""
    return _TEXT.format(needed_files())


def enough_files() -> bool:
    """Whether this process may open as many files as an observer needs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft == resource.RLIM_INFINITY or soft >= needed_files()


def require_files() -> None:
    """Refuse what would end in the middle, with an error that is about something else.

    :raises HostUnsupportedError: the limit of open files is too low.
    """
    if not enough_files():
        raise HostUnsupportedError(f"open files: {files_found()}: {files_remedy()}")


def shortage(error: OSError) -> str:
    """Say which limit of open files a refused call met; empty: it met none."""
    if error.errno == errno.EMFILE:
        return f"too many open files for this process: {files_found()}"
    if error.errno == errno.ENFILE:
        most = Path("/", _FILE_MAX).read_text(encoding="ascii").strip()
        return f"too many open files on this machine: {most} at most (sysctl fs.file-max)"
    return ""


def _number(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
