"""What a fault is planted with, and the host that it is planted on: values that every fault's ``prepare`` reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolkit import presence
from toolkit.apply import cgroups, changes
from toolkit.apply.change import ChangeKind, HostChange
from toolkit.errors import InputError
from toolkit.faults.torn import Tear
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import Hierarchy, read_control
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value
from toolkit.text import names


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """A fault to plant. Each fault says which of the fields it reads.

    :param fault: id of the fault (:mod:`toolkit.faults.registry`). :param targets: cgroups.
    :param cpus: CPUs that the fault is about, ``mems`` NUMA nodes. :param quota_us: a quota, -1 for none, and its
        ``period_us`` (``None``: the cgroup's own). :param pod_too: lift the pod's quota where it is the tighter one.
    :param shares: a CPU weight in shares; ``None``: the kernel's default.
    :param irq: number of an interrupt; ``None``: chosen. :param state_file: a ``cpu_manager_state``.
    :param consent: the user knows that this breaks isolation outside of pinproof's own sandboxes.
    """

    fault: str
    targets: tuple[str, ...] = ()
    cpus: CpuSet | None = None
    mems: CpuSet | None = None
    quota_us: int = 1000
    period_us: int | None = None
    pod_too: bool = False
    shares: int | None = None
    irq: int | None = None
    state_file: str = ""
    tear: Tear = Tear.LEAKED
    consent: bool = False


@dataclass(frozen=True, slots=True)
class Host:
    """Where to read. ``run_id`` names what is made."""

    root: Path
    hierarchy: Hierarchy
    run_id: str

    def online(self) -> CpuSet:
        """Return the CPUs that are online."""
        return CpuSet.parse(read_control(self.root / "sys/devices/system/cpu/online") or "", "online CPUs")

    def memory_nodes(self) -> CpuSet:
        """Return the NUMA nodes that have memory."""
        nodes = read_control(self.root / "sys/devices/system/node/has_memory")
        return CpuSet.parse(nodes or "0", "NUMA nodes with memory")

    def control(self, controller: str, cgroup: str, name: str) -> tuple[str, str]:
        """Return path and content of one control file.

        :raises InputError: the cgroup has no such file.
        """
        path = self.hierarchy.controller_dir(controller) / cgroupfs.relative(cgroup) / name
        text = read_control(path)
        if text is None:
            raise InputError(f"--target {cgroup}", f"{path} does not exist", f"a cgroup with a {name} of its own")
        return names.from_path(path), text

    def guest(self, cgroup: str) -> HostChange:
        """Return the cgroup that we make beside the target's pod."""
        above = cgroup.split("/")[1:-2]
        parent = "/".join(above)
        hierarchies = [
            name
            for name in cgroups.hierarchies(self.hierarchy, everything=False)
            if (mount := cgroups.mount_of(self.hierarchy, name)) is not None and presence.is_dir(mount / parent)
        ]
        path = "/" + "/".join([*above, f"{changes.GUEST}{self.run_id}"])
        return HostChange(kind=ChangeKind.CGROUP, path=path, hierarchies=tuple(hierarchies))


def one_cpu(injection: Injection) -> int:
    """Return the only CPU that an injection is about.

    :raises InputError: it names none, or several.
    """
    if injection.cpus is None or len(injection.cpus) != 1:
        raise InputError("--cpus", str(injection.cpus or "none"), "one CPU")
    return injection.cpus.first()
