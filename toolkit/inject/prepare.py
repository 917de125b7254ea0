"""From a fault to the changes that make it: reads the host, writes nothing. :mod:`toolkit.apply.changes` makes them.

Source: ``docs/facts.md`` K12-K20; Documentation/core-api/cpu_hotplug.rst, irq/irq-affinity.rst.

Longer than 300 lines: one small function for each fault, side by side so that they stay alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolkit.apply import cgroups, changes
from toolkit.apply.change import Change, ChangeKind
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.host import cgroupfs, procfs
from toolkit.host.cgroup_mounts import Hierarchy, read_control
from toolkit.inject.catalogue import FaultId
from toolkit.inject.torn import Tear, torn
from toolkit.model import names
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """A fault to plant.

    :param targets: cgroups. :param cpus: CPUs that the fault is about. :param quota_us: of ``quota-imposed``.
    :param irq: number of an interrupt; ``None``: chosen. :param state_file: of ``checkpoint-torn``.
    :param consent: the user knows that this breaks isolation outside of pinproof's own sandboxes.
    """

    fault: FaultId
    targets: tuple[str, ...] = ()
    cpus: CpuSet | None = None
    quota_us: int = 1000
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

    def control(self, controller: str, cgroup: str, name: str) -> tuple[str, str]:
        """Return path and content of one control file.

        :raises InputError: the cgroup has no such file.
        """
        path = self.hierarchy.controller_dir(controller) / cgroupfs.relative(cgroup) / name
        text = read_control(path)
        if text is None:
            raise InputError(f"--target {cgroup}", f"{path} does not exist", f"a cgroup with a {name} of its own")
        return names.from_path(path), text

    def guest(self, cgroup: str) -> Change:
        """Return the cgroup that we make beside the target's pod."""
        above = cgroup.split("/")[1:-2]
        parent = "/".join(above)
        hierarchies = [
            name
            for name in cgroups.hierarchies(self.hierarchy, everything=False)
            if (mount := cgroups.mount_of(self.hierarchy, name)) is not None and (mount / parent).is_dir()
        ]
        path = "/" + "/".join([*above, f"{changes.GUEST}{self.run_id}"])
        return Change(kind=ChangeKind.CGROUP, path=path, hierarchies=tuple(hierarchies))


def prepare(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    """Return the changes that make the fault; several alternatives only where the host must be asked by trying.

    :raises InputError: the fault makes no sense here. :raises HostUnsupportedError: this host cannot do it.
    """
    return _PREPARE[injection.fault](host, injection)


def _write(host: Host, controller: str, cgroup: str, name: str, after: str) -> Change:
    path, before = host.control(controller, cgroup, name)
    if changes.same(name, before, after):
        raise InputError(
            f"--target {cgroup}", f"{name} is {before.strip()!r} already", "a fault that changes something"
        )
    return Change(kind=ChangeKind.CONTROL, path=path, before=before, after=after)


def _parents(host: Host, cgroup: str, name: str) -> CpuSet:
    """CPUs or nodes of the nearest cgroup above that has any."""
    above = cgroup.rpartition("/")[0]
    while above:
        files = cgroupfs.read_files(host.hierarchy, above, 0)
        found = files.cpus_effective if name == "cpuset.cpus" else files.mems_effective
        if found:
            return found
        above = above.rpartition("/")[0]
    if name == "cpuset.cpus":
        return host.online()
    nodes = read_control(host.root / "sys/devices/system/node/has_memory")
    return CpuSet.parse(nodes or "0", "NUMA nodes with memory")


def _cpuset_write(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    return (
        tuple(
            _write(
                host,
                "cpuset",
                cgroup,
                "cpuset.cpus",
                str(injection.cpus or _parents(host, cgroup, "cpuset.cpus")),
            )
            for cgroup in injection.targets
        ),
    )


def _emptied(host: Host, cgroup: str, files: tuple[str, ...]) -> tuple[Change, ...]:
    """No kernel takes an empty set where there are tasks (``validate_change``: ENOSPC): the parent's is written."""
    directory = host.hierarchy.controller_dir("cpuset") / cgroupfs.relative(cgroup)
    populated = "populated 1" in (read_control(directory / "cgroup.events") or "").split("\n")
    can_be_empty = host.hierarchy.is_v2("cpuset") and not populated
    made = []
    for name in files:
        path, before = host.control("cpuset", cgroup, name)
        after = "" if can_be_empty else str(_parents(host, cgroup, name))
        # What is empty already has its parent's, and could not be made empty again.
        if before.strip() and not changes.same(name, before, after):
            made.append(Change(kind=ChangeKind.CONTROL, path=path, before=before, after=after))
    if not made:
        raise InputError(f"--target {cgroup}", "it has its parent's CPUs already", "a cgroup with CPUs of its own")
    return tuple(made)


def _cpuset_emptied(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    files = ("cpuset.cpus", "cpuset.mems")
    return (tuple(change for cgroup in injection.targets for change in _emptied(host, cgroup, files)),)


def _pool_emptied(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    return (tuple(change for cgroup in injection.targets for change in _emptied(host, cgroup, ("cpuset.cpus",))),)


def _quota(host: Host, cgroup: str, quota_us: int) -> Change:
    if host.hierarchy.is_v2("cpu"):
        period = host.control("cpu", cgroup, "cpu.max")[1].split()[-1]
        return _write(host, "cpu", cgroup, "cpu.max", f"{'max' if quota_us < 0 else quota_us} {period}")
    return _write(host, "cpu", cgroup, "cpu.cfs_quota_us", str(quota_us))


def _quota_reset(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    return (tuple(_quota(host, cgroup, -1) for cgroup in injection.targets),)


def _quota_imposed(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    if injection.quota_us < 1000:
        raise InputError("--quota", str(injection.quota_us), "at least 1000 us, the kernel's least")
    return (tuple(_quota(host, cgroup, injection.quota_us) for cgroup in injection.targets),)


def _weight_reset(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    name, default = ("cpu.weight", "100") if host.hierarchy.is_v2("cpu") else ("cpu.shares", "1024")
    return (tuple(_write(host, "cpu", cgroup, name, default) for cgroup in injection.targets),)


def _task_moved(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    cgroup = injection.targets[0]
    guest = host.guest(cgroup)
    path = cgroupfs.relative(cgroup)
    members = {}
    for name in guest.hierarchies:
        mount = cgroups.mount_of(host.hierarchy, name)
        assert mount is not None
        members[name] = {int(word) for word in (read_control(mount / path / "cgroup.procs") or "").split()}
    pids = sorted(set().union(*members.values()))
    if not pids:
        raise InputError(f"--target {cgroup}", "it has no process", "a cgroup with a process to move")
    # The youngest: the first may be a main process that only waits for its children.
    pid = pids[-1]
    began = procfs.start_time(pid, host.root)
    if began is None:
        raise InputError(f"--target {cgroup}", f"process {pid} has just ended", "a cgroup whose processes stay")
    moved = Change(
        kind=ChangeKind.MEMBER,
        before=cgroup,
        after=guest.path,
        hierarchies=tuple(name for name in guest.hierarchies if pid in members[name]),
        pid=pid,
        start_time=began,
    )
    return ((guest, moved),)


def _rogue_task(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    return ((host.guest(injection.targets[0]),),)


def rogue_cpus(host: Host, injection: Injection) -> CpuSet:
    """Return the CPU that the rogue task is pinned to."""
    cgroup = injection.targets[0]
    own = cgroupfs.read_effective_cpus(host.hierarchy, cgroup)
    cpus = injection.cpus or own
    if not cpus or not cpus <= host.online():
        raise InputError("--cpus", str(cpus or "none"), f"a CPU that is online ({host.online()})")
    return CpuSet.of([cpus.first()])


def _checkpoint_torn(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    path = Path(injection.state_file)
    if path.name != changes.STATE_FILES[0]:
        raise InputError("--state-file", injection.state_file or "none", f"a file named {changes.STATE_FILES[0]}")
    path = path.absolute()
    before = changes.read_state(path)
    if before is None:
        raise InputError("--state-file", f"{path} does not exist", "the kubelet's cpu_manager_state")
    after = torn(before, injection.tear, str(path))
    return ((Change(kind=ChangeKind.STATE_FILE, path=names.from_path(path), before=before, after=after),),)


def _one_cpu(injection: Injection) -> int:
    if injection.cpus is None or len(injection.cpus) != 1:
        raise InputError("--cpus", str(injection.cpus or "none"), "one CPU")
    return injection.cpus.first()


def _cpu_offline(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    cpu = _one_cpu(injection)
    path = host.root / f"sys/devices/system/cpu/cpu{cpu}/online"
    state = (read_control(path) or "").strip()
    if not path.exists():
        raise HostUnsupportedError(f"CPU {cpu} cannot be taken offline: {path} does not exist (the boot CPU has none)")
    if state != "1":
        raise InputError("--cpus", f"CPU {cpu} is offline already", "a CPU that is online")
    if len(host.online()) < 2:
        raise HostUnsupportedError(f"CPU {cpu} is the only one online")
    return (
        (
            *_interrupts_of(host, cpu),
            *_legacy_cpusets_of(host, cpu),
            Change(kind=ChangeKind.CONTROL, path=names.from_path(path), before="1", after="0"),
        ),
    )


def _interrupts_of(host: Host, cpu: int) -> list[Change]:
    found = []
    for irq in _irqs(host.root):
        path, text = _affinity(host.root, irq)
        if text and cpu in CpuSet.parse(text, path):
            found.append(Change(kind=ChangeKind.CONSEQUENCE, path=path, before=text))
    return found


def _legacy_cpusets_of(host: Host, cpu: int) -> list[Change]:
    """v1 takes the CPU out of ``cpuset.cpus`` itself and never puts it back. Children first: undone parents first."""
    if host.hierarchy.is_v2("cpuset"):
        return []
    top = host.hierarchy.controller_dir("cpuset")
    found = []
    for directory, _, _ in os.walk(top, topdown=False):
        path = Path(directory) / "cpuset.cpus"
        text = (read_control(path) or "").strip()
        if Path(directory) != top and text and cpu in CpuSet.parse(text, str(path)):
            found.append(Change(kind=ChangeKind.CONSEQUENCE, path=names.from_path(path), before=text))
    return found


def _irqs(root: Path) -> list[int]:
    try:
        entries = os.listdir(root / "proc/irq")  # noqa: PTH208 - names only
    except OSError:
        return []
    return sorted(int(name) for name in entries if name.isdigit())


def _affinity(root: Path, irq: int) -> tuple[str, str]:
    path = root / f"proc/irq/{irq}/smp_affinity_list"
    return names.from_path(path), (read_control(path) or "").strip()


def interrupt_counts(root: Path) -> dict[int, int]:
    """Return how often each numbered interrupt came, all CPUs."""
    counts = {}
    for line in (read_control(root / "proc/interrupts") or "").split("\n")[1:]:
        number, _, rest = line.partition(":")
        if number.strip().isdigit():
            columns = []
            for word in rest.split():
                if not word.isdigit():
                    break
                columns.append(int(word))
            counts[int(number)] = sum(columns)
    return counts


def _irq_moved(host: Host, injection: Injection) -> tuple[tuple[Change, ...], ...]:
    cpu = _one_cpu(injection)
    if cpu not in host.online():
        raise InputError("--cpus", f"CPU {cpu} is not online", f"one of {host.online()}")
    counts = interrupt_counts(host.root)
    chosen = _irqs(host.root) if injection.irq is None else [injection.irq]
    found = []
    for irq in sorted(chosen, key=lambda number: (-counts.get(number, 0), number)):
        path, before = _affinity(host.root, irq)
        effective = (read_control(host.root / f"proc/irq/{irq}/effective_affinity_list") or "").strip()
        if before and irq in counts and not changes.same("smp_affinity_list", before, str(cpu)):
            via = "" if effective in ("", before) else effective
            found.append((Change(kind=ChangeKind.CONTROL, path=path, before=before, after=str(cpu), via=via),))
    if not found:
        which = "no interrupt of this host" if injection.irq is None else f"interrupt {injection.irq}"
        raise HostUnsupportedError(f"{which} can be moved to CPU {cpu}: not in use, or bound to it already")
    return tuple(found)


_PREPARE: dict[FaultId, Callable[[Host, Injection], tuple[tuple[Change, ...], ...]]] = {
    FaultId.CPUSET_WRITE: _cpuset_write,
    FaultId.CPUSET_EMPTIED: _cpuset_emptied,
    FaultId.POOL_EMPTIED: _pool_emptied,
    FaultId.QUOTA_RESET: _quota_reset,
    FaultId.QUOTA_IMPOSED: _quota_imposed,
    FaultId.WEIGHT_RESET: _weight_reset,
    FaultId.TASK_MOVED: _task_moved,
    FaultId.ROGUE_TASK: _rogue_task,
    FaultId.CHECKPOINT_TORN: _checkpoint_torn,
    FaultId.CPU_OFFLINE: _cpu_offline,
    FaultId.IRQ_MOVED: _irq_moved,
}
