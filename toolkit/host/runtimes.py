"""What this host says of the runtimes: which version a tool has (``runc --version``), and whether it can work here.

The table of them is :mod:`toolkit.model.runtimes`. Source: the first line of both tools, ``runc version 1.3.2`` and
``crun version 1.23``; distributions append their own marks (``1.1.5+ds1``), which stay.
"""

from __future__ import annotations

import shutil
import subprocess

from toolkit.errors import HostUnsupportedError
from toolkit.host.cgroup_mounts import Hierarchy, Mode
from toolkit.model.evidence import Runtime
from toolkit.model.runtimes import RUNTIMES, RuntimeKind
from toolkit.text import names

DEADLINE_S = 10.0


def read_runtime(name: str) -> Runtime:
    """Return a runtime and its version; the version is empty where the tool does not print one.

    :param name: a name of :data:`toolkit.model.runtimes.RUNTIMES`.
    """
    kind = RUNTIMES[name]
    program = shutil.which(kind.program) if kind.program else None
    if program is None:
        return Runtime(name=name)
    try:
        done = subprocess.run((program, "--version"), capture_output=True, timeout=DEADLINE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return Runtime(name=name)
    first = names.shown(done.stdout.partition(b"\n")[0])
    return Runtime(name=name, version=version_of(name, first) if done.returncode == 0 else "")


def version_of(name: str, text: str) -> str:
    """Return the version in a tool's answer; empty if this tool's is not in it."""
    first = text.partition("\n")[0].replace("version:", "version").split()
    return first[2][:80] if len(first) >= 3 and first[:2] == [name, "version"] else ""


def unfit(kind: RuntimeKind, hierarchy: Hierarchy) -> str:
    """Return why the runtime cannot work with these cgroup mounts, or nothing."""
    if kind.hybrid or hierarchy.mode is Mode.V2:
        return ""
    return f"{kind.name} needs a cgroup v2 host: it does not join the v2 hierarchy of a {hierarchy.mode.value} one"


def others() -> str:
    """Return what helps where a runtime is unfit."""
    return f"boot with cgroup v2, or --runtime {' or '.join(other.name for other in RUNTIMES.values() if other.hybrid)}"


def require_runtime(kind: RuntimeKind, hierarchy: Hierarchy) -> None:
    """Check that a runtime can work with these cgroup mounts.

    :raises HostUnsupportedError: it cannot, or nothing can, because the host has cgroup v1 only.
    """
    hierarchy.identity_root()
    problem = unfit(kind, hierarchy)
    if problem:
        raise HostUnsupportedError(f"{problem}: {others()}")
