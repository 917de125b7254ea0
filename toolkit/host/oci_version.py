"""Which runtime makes the containers, with its version: what ``runc --version`` or ``crun --version`` says.

Source: the first line of both tools, ``runc version 1.3.2`` and ``crun version 1.23``; distributions append their own
marks (``1.1.5+ds1``), which stay.
"""

from __future__ import annotations

import shutil
import subprocess

from toolkit.model import names
from toolkit.model.evidence import Runtime

CGROUPFS = "cgroupfs"
DEADLINE_S = 10.0


def read_runtime(name: str) -> Runtime:
    """Return a runtime and its version; the version is empty where the tool does not print one.

    :param name: ``cgroupfs`` (we write the cgroups ourselves), ``runc`` or ``crun``.
    """
    if name == CGROUPFS:
        return Runtime(name=name)
    program = shutil.which(name)
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
    first = text.partition("\n")[0].split()
    return first[2][:80] if len(first) >= 3 and first[:2] == [name, "version"] else ""
