"""What this process may do, capability by capability: a refusal names the one that is lacking, not a user.

Every user may have a capability (``setpriv --ambient-caps``, ``AmbientCapabilities=`` of a service), and user 0 may
lack it (a container). Which verb needs which was found by dropping each one: docs/privileges.md.

Source: capabilities(7); proc_pid_status(5), ``CapEff``; include/uapi/linux/capability.h.
"""

from __future__ import annotations

import os
from enum import IntEnum
from pathlib import Path

from toolkit.errors import HostUnsupportedError
from toolkit.host.cgroup_mounts import read_control


class Cap(IntEnum):
    """Capabilities that something here needs; the value is the kernel's number."""

    DAC_OVERRIDE = 1
    SYS_PTRACE = 19
    SYS_ADMIN = 21
    SYS_NICE = 23
    PERFMON = 38
    BPF = 39

    def __str__(self) -> str:
        return f"CAP_{self.name}"


_PARTS_OF_SYS_ADMIN = frozenset((Cap.BPF, Cap.PERFMON))
"""Capabilities that were cut out of CAP_SYS_ADMIN in Linux 5.8, which still stands for them."""


def held(root: Path = Path("/")) -> frozenset[Cap]:
    """Return which of them this process has now; where that is not known, those of its user."""
    for line in (read_control(root / "proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            bits = int(line.partition(":")[2], 16)
            return frozenset(cap for cap in Cap if bits >> cap & 1)
    return frozenset(Cap) if os.geteuid() == 0 else frozenset()


def lacking(*needed: Cap, root: Path = Path("/")) -> tuple[Cap, ...]:
    """Return which of them this process does not have, whatever its user."""
    own = held(root)
    stands_for = _PARTS_OF_SYS_ADMIN if Cap.SYS_ADMIN in own else frozenset()
    return tuple(cap for cap in needed if cap not in own | stands_for)


def how_to_get(*caps: Cap) -> str:
    """Say how a process gets them."""
    older = " (CAP_SYS_ADMIN before Linux 5.8)" if _PARTS_OF_SYS_ADMIN & {*caps} else ""
    return f"run it with sudo, or with {' and '.join(map(str, caps))}{older}"


def require(what: str, *needed: Cap) -> None:
    """Check that this process has all of them. :param what: what needs them, as the beginning of a sentence.

    :raises HostUnsupportedError: it lacks some; the message names each.
    """
    missing = lacking(*needed)
    if missing:
        raise HostUnsupportedError(f"{what} needs {' and '.join(map(str, missing))}: {how_to_get(*missing)}")


def require_root(what: str) -> None:
    """Check that the effective user is root: what no list of capabilities of ours suffices for.

    :param what: what needs it, as the beginning of a sentence.
    :raises HostUnsupportedError: it is another user.
    """
    if os.geteuid() != 0:
        raise HostUnsupportedError(f"{what} needs root: run it with sudo")


def why_no_cgroup(directory: Path) -> tuple[str, str]:
    """Say why no cgroup can be made in one that exists, and what helps; both are empty where it can.

    What counts is what this process may do: without ``effective_ids`` the kernel would leave its capabilities out.
    """
    try:
        read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
    except OSError as error:
        return f"{directory}: {error.strerror}", "mount it"
    if read_only:
        return f"{directory} is mounted read-only", f"mount it to be written to (-v {directory}:{directory}:rw)"
    if os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        return "", ""
    return f"user {os.geteuid()} may make nothing in {directory}", how_to_get(Cap.DAC_OVERRIDE)
