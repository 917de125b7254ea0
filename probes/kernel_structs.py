"""Offsets of the few kernel struct members that programs read, from the running kernel's own BTF.

Headers are never asked: they may be of another kernel.

Source: Documentation/bpf/btf.rst, sections 2 and 4.
"""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import HostUnsupportedError, InputError
from toolkit.host.btf import KERNEL_BTF, Btf

WANTED: dict[str, tuple[str, ...]] = {
    "task_struct": ("pid", "tgid", "flags", "cgroups", "signal", "nr_cpus_allowed", "comm"),
    "signal_struct": ("nr_threads",),
    "css_set": ("dfl_cgrp",),
    "cgroup": ("self", "kn", "root"),
    "cgroup_subsys_state": ("parent",),
    "cgroup_root": ("hierarchy_id",),
    "kernfs_node": ("id",),
    "irqaction": ("name",),
}


def offsets(root: Path, wanted: dict[str, tuple[str, ...]] | None = None) -> dict[str, int]:
    """Return byte offsets by ``struct.member``.

    :raises HostUnsupportedError: the kernel has no BTF, or a member is missing.
    """
    try:
        btf = Btf.of_kernel(root)
        if btf is not None:
            return btf.offsets(wanted or WANTED)
    except InputError as error:
        raise HostUnsupportedError(str(error)) from None
    raise HostUnsupportedError(
        f"{root / KERNEL_BTF} is missing; the probes need a kernel with BTF (CONFIG_DEBUG_INFO_BTF=y)"
    )
