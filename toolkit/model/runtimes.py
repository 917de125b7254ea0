"""The runtimes that can make containers, a row each; everything that differs between them by name is a column here.

Source: docs/facts.md K-weight (the weight formula and its versions); ``runc(8)``, ``crun(1)``: both take the same
command line (``run --bundle``, ``exec``, ``update``, ``delete``), which :mod:`toolkit.apply.oci_runtime` speaks.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.errors import InputError

CGROUPFS = "cgroupfs"
"""Pinproof's own: plain processes in cgroups that it writes itself."""
CRUN = "crun"
CRUN_INNER = "container"
"""The cgroup that crun makes in a scope (newer versions: where they are told to) and writes all limits to; 1.8.1 writes
CPUs and quota to no other. All tasks are in it: a v2 cgroup that gives controllers to those inside has none of its own.
Source: crun(1), ``run.oci.systemd.subgroup``; crun src/libcrun/cgroup.c (``update_cgroup_resources``).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeKind:
    """One runtime.

    :param name: as in ``--runtime`` and in saved runs.
    :param program: the command; the package that has it is named so too. Empty: pinproof itself.
    :param hybrid: whether it works where controllers are on v1 and cgroup2 gives the identity; if not, it needs v2.
    :param keeps_cgroup: whether a container that is started again is in the cgroup that it had.
    :param logarithmic_since: the version from which it writes weights by the newer formula; ``None``: in no version.
    """

    name: str
    program: str = ""
    hybrid: bool = True
    keeps_cgroup: bool = False
    logarithmic_since: tuple[int, int, int] | None = None


RUNTIMES = {
    kind.name: kind
    for kind in (
        RuntimeKind(name=CGROUPFS, keeps_cgroup=True),
        RuntimeKind(name="runc", program="runc", logarithmic_since=(1, 3, 2)),
        RuntimeKind(name=CRUN, program=CRUN, hybrid=False, logarithmic_since=(1, 23, 0)),
    )
}
"""Name -> runtime, the default first."""

INIT_NAMES = frozenset(
    {
        *("runc:[0:PARENT]", "runc:[1:CHILD]", "runc:[2:INIT]"),
        *("youki:[1:INTER]", "youki:[2:INIT]"),
        *("crun", "memfd:crun_clon"),
    }
)
"""How threads of runtimes are called in a container that does not run yet: unpinned there is normal. Whole names, for a
workload may call itself by the beginning of one. docs/facts.md "Normal on a healthy node".
"""
MOVERS = INIT_NAMES | {
    *("systemd", "systemd-machine", "runc", "youki", "runsc", "kata-runtime", "containerd", "containerd-shim"),
    *("dockerd", "conmon", "conmonrs", "crio", "podman", "buildah", "lxc-start", "lxc-attach", "lxd", "incusd"),
    *("libvirtd", "virtqemud", "slurmd", "slurmstepd", "apptainer", "starter"),
}
"""How tasks are called (15 bytes) that make containers, services, jobs and virtual machines, and move tasks between
their cgroups: whatever has such a name and is in no pod moves by right."""
INIT_NS = 1_600_000_000
"""The most CPU time that a runtime may spend on a CPU in a new cgroup: ``runc init`` sat there unpinned for 0.3 to
1.6 s on a kubelet's node. Under load it once was 12 s, most of which it waited for a CPU: no start needs more of it."""
MONITOR_PREFIX = "crio-conmon-"
"""How the cgroups of CRI-O's monitors begin; with ``conmon_cgroup = "pod"`` they are in the pods, unpinned."""
PINNED_NS = 12_000_000_000
"""The longest time that a runtime was seen to sit there before it had pinned itself, waiting for a CPU included."""

SETUP_NS = 2_000_000_000
"""Within this a runtime has written the files of a cgroup that it made: two readings of them."""


def whole_of(cgroup: str) -> str:
    """Return the cgroup of a container as a whole: of crun's inner one the scope, of all others itself."""
    above, _, name = cgroup.rstrip("/").rpartition("/")
    return above if name == CRUN_INNER and above.endswith(".scope") else cgroup


def is_monitor(cgroup: str) -> bool:
    """Whether a cgroup is called as that of a container's monitor: by its place, because any task can have any name."""
    return cgroup.rpartition("/")[2].startswith(MONITOR_PREFIX)


def find_runtime(name: str) -> RuntimeKind:
    """Return the runtime of this name.

    :raises InputError: there is none.
    """
    if name not in RUNTIMES:
        raise InputError("--runtime", repr(name)[:40], ", ".join(RUNTIMES))
    return RUNTIMES[name]
