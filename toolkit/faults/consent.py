"""Whether a fault may be planted here: freely in sandboxes of our own, elsewhere only with the user's word.

A sandbox of our own is a cgroup below ``/pinproof-<run>`` of a run whose journal exists and which lives.
"""

from __future__ import annotations

from pathlib import Path

from toolkit import presence
from toolkit.apply import journal, runs
from toolkit.errors import InputError
from toolkit.faults.fault import Description, Scope
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import Hierarchy

CONSENT = "--i-know-this-breaks-isolation"


def own_sandbox(root: Path, cgroup: str) -> bool:
    """Return whether a cgroup lies in the sandbox of a run that lives."""
    first, _, below = cgroupfs.relative(cgroup).partition("/")
    if not below or not first.startswith("pinproof-"):
        return False
    directory = journal.runs_directory(root) / first.removeprefix("pinproof-")
    try:
        found = journal.read(directory) if presence.is_dir(directory) else None
    except InputError:
        return False
    return found is not None and found.alive(root) and runs.top(found.run_id) == f"/{first}"


def require_allowed(
    root: Path, hierarchy: Hierarchy, fault: Description, targets: tuple[str, ...], *, consent: bool
) -> None:
    """Check that the targets are there and that this may be done to them.

    :raises InputError: a missing target, or no consent where it is needed.
    """
    if fault.scope is Scope.CGROUP:
        if not targets:
            raise InputError(f"inject {fault.id}", "no target", "--target CGROUP")
        for cgroup in targets:
            if cgroupfs.relative(cgroup) in ("", "."):
                raise InputError(f"--target {cgroup}", "the root cgroup", "a cgroup below it")
            if not cgroupfs.exists(hierarchy, cgroup):
                raise InputError(f"--target {cgroup}", "no such cgroup", "a cgroup that exists")
        if all(own_sandbox(root, cgroup) for cgroup in targets):
            return
        what = f"{', '.join(targets)} is no living sandbox of pinproof"
    elif fault.scope is Scope.HOST:
        what = "it changes the whole machine"
    else:
        what = "it changes a file of a kubelet"
    if not consent:
        raise InputError(f"inject {fault.id}", f"{what}: real workloads may be harmed", CONSENT)
