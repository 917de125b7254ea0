"""Which CPUs the static policy takes: the entry to the packed and the distributed choice.

Pure functions of machine, free CPUs, number and options; no state, no pods, no NUMA hints (that is
:mod:`toolkit.allocation.cpu.manager`). Source: ``docs/specification.md``, "Static policy options".
"""

from __future__ import annotations

from toolkit.allocation.cpu.distributed import take_distributed
from toolkit.allocation.cpu.options import CpuPolicyOptions
from toolkit.allocation.cpu.packed import CpuShortageError, take_packed
from toolkit.allocation.machine import Machine
from toolkit.model.cpuset import EMPTY, CpuSet

__all__ = ["CpuShortageError", "take_cpus", "take_cpus_near"]


def take_cpus(
    machine: Machine,
    available: CpuSet,
    count: int,
    options: CpuPolicyOptions,
    *,
    foreign: CpuSet = EMPTY,
    quirks: bool = False,
) -> CpuSet:
    """Choose ``count`` CPUs out of ``available`` as the kubelet's static policy does with these options.

    :param foreign: CPUs of other pods, which an irregular core must not bring along.
    :param quirks: reproduce the real component's defects: ``foreign`` is not respected, and what
        :mod:`toolkit.allocation.cpu.packed` and :mod:`toolkit.allocation.cpu.distributed` say.
    :raises CpuShortageError: there are not enough.
    """
    spread = options.distribute_cpus_across_cores
    kept = 0 if quirks else foreign.mask
    if options.distribute_cpus_across_numa:
        group = machine.cpus_per_core if options.full_pcpus_only else 1
        mask = take_distributed(
            machine, available.mask, count, group_size=group, spread=spread, foreign=kept, quirks=quirks
        )
    else:
        by_uncore = options.prefer_align_cpus_by_uncorecache
        mask = take_packed(
            machine, available.mask, count, spread=spread, by_uncore=by_uncore, foreign=kept, quirks=quirks
        )
    return CpuSet(mask)


def take_cpus_near(
    machine: Machine,
    available: CpuSet,
    count: int,
    options: CpuPolicyOptions,
    numa_nodes: tuple[int, ...] | None,
    *,
    foreign: CpuSet = EMPTY,
    quirks: bool = False,
) -> CpuSet:
    """Choose CPUs, first out of those that the topology hint's nodes have (``None``: no hint), then anywhere.

    With ``align-by-socket`` a node stands for its whole socket.

    :raises CpuShortageError: there are not enough.
    """
    near = CpuSet()
    if numa_nodes is not None:
        aligned = available & aligned_cpus(machine, numa_nodes, options)
        near = take_cpus(machine, aligned, min(count, len(aligned)), options, foreign=foreign, quirks=quirks)
        # What it has already is not taken a second time: it would count twice, and one CPU would be missing.
        foreign |= near
    return near | take_cpus(machine, available - near, count - len(near), options, foreign=foreign, quirks=quirks)


def aligned_cpus(machine: Machine, numa_nodes: tuple[int, ...], options: CpuPolicyOptions) -> CpuSet:
    """Return the CPUs that count as near the hint's nodes."""
    if not options.align_by_socket:
        return machine.cpus_in_numa(numa_nodes)
    mask = 0
    for socket in machine.sockets_of_numa(numa_nodes):
        mask |= machine.socket_masks[socket]
    return CpuSet(mask)
