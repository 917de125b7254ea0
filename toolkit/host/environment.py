"""What a result's reader must know of the machine that it was made on. Facts only, each readable without root.

Source: docs/principles.md ("environment") and docs/facts.md K21 (per-task throttling) for the throttle model;
Documentation/scheduler/sched-bwc.rst (slice), sched-ext.rst (``/sys/kernel/sched_ext``);
Documentation/admin-guide/pm/cpuidle.rst (``latency``, ``disable``).
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import toolkit
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.host.btf import Btf
from toolkit.host.cgroup_mounts import detect
from toolkit.host.kernel_config import read_kernel_config
from toolkit.host.sysfs import SysTree
from toolkit.host.topology import read_topology
from toolkit.host.virtualization import read_virtualization
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Environment
from toolkit.model.topology import Topology

_KALLSYMS_BYTES = 256 * 1024 * 1024


def read_environment(root: Path = Path("/"), topology: Topology | None = None) -> Environment:
    """Read the facts below ``root``; ``topology`` saves reading it again.

    :raises InputError: there is no CPU folder below the root.
    """
    tree = SysTree(root)
    topology = topology or read_topology(root)
    release = tree.name("proc/sys/kernel/osrelease") or "unknown"
    return Environment(
        kernel=release,
        cgroup=cgroup_mode(root),
        cmdline=tree.name("proc/cmdline") or "",
        cpus_online=topology.online,
        cpus_isolated=topology.isolated,
        cpus_nohz_full=topology.nohz_full,
        hz=_hz(root, release),
        bandwidth_slice_us=tree.integer("proc/sys/kernel/sched_cfs_bandwidth_slice_us"),
        idle_exit_us=idle_exit_us(tree, topology.online),
        throttle_model=throttle_model(root),
        sched_ext=_sched_ext(tree),
        virtualization=read_virtualization(tree),
        topology=summary(topology),
        pinproof=toolkit.__version__,
    )


@functools.lru_cache(maxsize=4)
def _hz(root: Path, _release: str) -> int | None:
    """Return the tick's rate that the kernel was built with: some hundred kilobytes of text for one number."""
    text = (read_kernel_config(SysTree(root)) or {}).get("CONFIG_HZ", "")
    return int(text) if re.fullmatch(r"\d{1,5}", text, re.ASCII) else None


def idle_exit_us(tree: SysTree, cpus: CpuSet) -> int | None:
    """Return the longest exit latency of the idle states that are not disabled, in us; ``None``: no cpuidle."""
    latencies = []
    for cpu in cpus:
        folder = f"sys/devices/system/cpu/cpu{cpu}/cpuidle"
        for state in tree.numbered(folder, "state"):
            latency = tree.integer(f"{folder}/state{state}/latency")
            if latency is not None and latency >= 0 and not tree.integer(f"{folder}/state{state}/disable"):
                latencies.append(latency)
    return max(latencies, default=None)


def cgroup_mode(root: Path = Path("/")) -> str:
    """Return ``v2``, ``hybrid``, ``v1``, or ``none`` where no cgroup file system is mounted."""
    try:
        return detect(root).mode.value
    except HostUnsupportedError:
        return "none"


def throttle_model(root: Path = Path("/")) -> str:
    """Return how CFS bandwidth stops a group: ``runqueue``, ``task`` or ``unknown``.

    ``task``: "sched/fair: Add related data structure for task based throttle" (2025, kernel 6.18) gave each task a
    ``throttle_node`` to queue itself on; before, the group's run queue was taken off as a whole. Without BTF the
    callback's name in kallsyms shows the same.
    """
    try:
        btf = Btf.of_kernel(root)
    except InputError:
        btf = None
    if btf is not None and btf.has_struct("cfs_rq") and btf.has_struct("task_struct"):
        if not btf.has_member("cfs_rq", "throttled"):
            return "unknown"  # built without CFS bandwidth
        return "task" if btf.has_member("task_struct", "throttle_node") else "runqueue"
    symbols = SysTree(root).read_bytes("proc/kallsyms", _KALLSYMS_BYTES) or b""
    if re.search(rb"\bthrottle_cfs_rq_work\b", symbols):
        return "task"
    return "runqueue" if re.search(rb"\btg_unthrottle_up\b", symbols) else "unknown"


def summary(topology: Topology) -> dict[str, object]:
    """Return the counts that matter when two results are compared, and the groups that alignment is judged by."""
    return {
        "arch": topology.arch,
        "cpu_model": topology.cpu_model,
        "cpus_online": str(topology.online),
        "cpus_offline": str(topology.offline),
        "cores": len(topology.cores),
        "threads_per_core": dict(topology.threads_per_core),
        "sockets": len(topology.sockets),
        "l3_domains": len(topology.l3_groups),
        "numa_nodes": {str(node.id): str(node.cpus) for node in topology.numa},
        "numa_distances": None
        if topology.distances is None
        else {"ids": list(topology.distances.ids), "matrix": [list(row) for row in topology.distances.matrix]},
        "core_cpus": _lists(topology.cores),
        "l3_cpus": _lists(topology.l3_groups),
        "socket_cpus": _lists(topology.sockets),
        "mem_total_bytes": topology.mem_total_bytes,
    }


def _lists(groups: dict[int, CpuSet]) -> list[str]:
    return [str(cpus) for cpus in groups.values()]


def _sched_ext(tree: SysTree) -> str:
    state = tree.name("sys/kernel/sched_ext/state") or "disabled"
    scheduler = tree.name("sys/kernel/sched_ext/root/ops")
    return f"{state} ({scheduler})" if scheduler and state != "disabled" else state
