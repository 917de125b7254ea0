"""Offsets of the few kernel struct members that programs read, and one enumerator, from the running kernel's own BTF.

Headers are never asked: they may be of another kernel.

Source: Documentation/bpf/btf.rst, sections 2 and 4.
"""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import HostUnsupportedError, InputError
from toolkit.host.btf import KERNEL_BTF, Btf

WANTED: dict[str, tuple[str, ...]] = {
    "task_struct": (
        "pid",
        "tgid",
        "flags",
        "cgroups",
        "signal",
        "nr_cpus_allowed",
        "comm",
        "start_time",
        "self_exec_id",
    ),
    "signal_struct": ("nr_threads",),
    "css_set": ("dfl_cgrp", "subsys"),
    "cgroup": ("self", "kn", "root", "level"),
    "cgroup_subsys_state": ("parent", "cgroup"),
    "cgroup_root": ("hierarchy_id",),
    "kernfs_node": ("id",),
    "irqaction": ("name",),
}
ARRIVAL: dict[str, tuple[str, ...]] = {
    "task_struct": ("sched_info", "se"),
    "sched_info": ("last_arrival", "last_queued"),
    "sched_entity": ("cfs_rq",),
    "cfs_rq": ("rq",),
    "rq": ("clock",),
}
"""When a task came onto its CPU, by the scheduler's clock, and that clock: CONFIG_SCHED_INFO (CONFIG_SCHEDSTATS or
CONFIG_TASK_DELAY_ACCT bring it) and CONFIG_FAIR_GROUP_SCHED. Distributions have all; without them nothing is asked."""
THROTTLED = ("throttled_clock_self_time", "throttled_clock_pelt_time", "throttled_clock_task_time")
"""For how long a cgroup's runqueue was throttled on its CPU, with all levels above: since 677ea015f231 (Linux
6.6), before it since 64eaf50731ac (5.18), and before that. Where the scheduler knows the CPU's speed the latter two run
with it."""
OPEN_FILES: dict[str, tuple[str, ...]] = {"kernfs_open_file": ("kn",), "kernfs_node": ("name", "priv")}
"""Which control file a write goes to, and of which cgroup; the directory is ``parent``, ``__parent`` since
633488947ef6 (Linux 6.15)."""
THREADS: dict[str, tuple[str, ...]] = {
    "bpf_iter_meta": ("seq", "session_id"),
    "task_struct": ("policy", "cpus_mask", "mems_allowed"),
}
"""Masks and policy of a thread for an iterator over all: Linux 5.8, and CONFIG_CPUSETS for the memory nodes."""
DESCRIPTORS: dict[str, tuple[str, ...]] = {
    "task_struct": ("files",),
    "files_struct": ("fdt",),
    "fdtable": ("max_fds", "fd"),
    "file": ("f_inode",),
    "inode": ("i_sb", "i_private"),
    "super_block": ("s_magic",),
}
"""Which file a descriptor is."""

UNANNOUNCED: dict[str, int] = {"io_thread": 0x10, "user_worker": 0x4000}
"""Which flag of ``task_struct.flags`` a thread has that no fork event announces, by the member of ``kernel_clone_args``
that asks for it: PF_IO_WORKER (workers and pollers of io_uring are threads of their process since Linux 5.12),
PF_USER_WORKER (those of vhost since 6.4). Source: include/linux/sched.h; kernel/fork.c, ``create_io_thread``."""

CPUSET_SUBSYS = ("cgroup_subsys_id", "cpuset_cgrp_id")
"""Where the cpuset controller stands in ``css_set.subsys``."""


def offsets(root: Path, wanted: dict[str, tuple[str, ...]] | None = None) -> dict[str, int]:
    """Return byte offsets by ``struct.member``.

    :raises HostUnsupportedError: the kernel has no BTF, or a member is missing.
    """
    return _offsets(_kernel(root), wanted or WANTED)


def settings(root: Path) -> dict[str, int]:
    """Return what the programs are compiled with: ``OFF_<STRUCT>_<MEMBER>`` in bytes, and ``CPUSET_SUBSYS``.

    :raises HostUnsupportedError: as :func:`offsets`.
    """
    btf = _kernel(root)  # some megabytes: parsed once
    # Ancestors themselves since 7f203bc89eb6 (Linux 6.1), their ids before.
    ancestors = "ancestors" if btf.has_member("cgroup", "ancestors") else "ancestor_ids"
    places = _offsets(btf, WANTED | {"cgroup": (*WANTED["cgroup"], ancestors)})
    found = {"OFF_" + name.replace(".", "_").upper(): value for name, value in places.items()} | _known(btf, ARRIVAL)
    throttled = next((name for name in THROTTLED if btf.has_member("cfs_rq", name)), None)
    if ancestors == "ancestors":
        found["TELLS_WAITS"] = 1  # What had the CPU meanwhile: not tried before Linux 6.1, where programs must load.
    if throttled is not None and "OFF_RQ_CLOCK" in found:
        found["OFF_CFS_RQ_THROTTLED"] = _offsets(btf, {"cfs_rq": (throttled,)})[f"cfs_rq.{throttled}"]
    # A kernel without cpusets has nothing to ask for: no claim has one then, and the program never reads it.
    flags = sum(flag for member, flag in UNANNOUNCED.items() if btf.has_member("kernel_clone_args", member))
    return found | {"CPUSET_SUBSYS": btf.enumerator(*CPUSET_SUBSYS) or 0, "PF_UNANNOUNCED": flags}


def of_open_files(root: Path) -> dict[str, int]:
    """Return ``OFF_<STRUCT>_<MEMBER>`` of :data:`OPEN_FILES`, the directory and :data:`DESCRIPTORS`.

    What this kernel has otherwise is left out: the programs that need it are not made.

    :raises HostUnsupportedError: the kernel has no BTF.
    """
    btf = _kernel(root)
    parent = "__parent" if btf.has_member("kernfs_node", "__parent") else "parent"
    wanted = OPEN_FILES | {"kernfs_node": (*OPEN_FILES["kernfs_node"], parent)}
    return _known(btf, wanted, DESCRIPTORS)


def of_threads(root: Path) -> dict[str, int]:
    """Return ``OFF_<STRUCT>_<MEMBER>`` of :data:`THREADS`; none where this kernel has otherwise.

    :raises HostUnsupportedError: the kernel has no BTF.
    """
    return _known(_kernel(root), THREADS)


def _known(btf: Btf, *groups: dict[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the offsets of those groups of which this kernel has every member."""
    places: dict[str, int] = {}
    for group in groups:
        if all(btf.has_member(struct, member) for struct, members in group.items() for member in members):
            places |= _offsets(btf, group)
    return {"OFF_" + name.replace(".__", ".").replace(".", "_").upper(): value for name, value in places.items()}


def _offsets(btf: Btf, wanted: dict[str, tuple[str, ...]]) -> dict[str, int]:
    try:
        return btf.offsets(wanted)
    except InputError as error:
        raise HostUnsupportedError(str(error)) from None


def _kernel(root: Path) -> Btf:
    try:
        btf = Btf.of_kernel(root)
    except InputError as error:
        raise HostUnsupportedError(str(error)) from None
    if btf is None:
        raise HostUnsupportedError(
            f"{root / KERNEL_BTF} is missing; the probes need a kernel with BTF (CONFIG_DEBUG_INFO_BTF=y)"
        )
    return btf
