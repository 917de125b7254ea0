"""Which CPUs the static policy takes: the entry to the packed choice, and to that of an option.

Pure functions of machine, free CPUs, number and options; no state, no pods, no NUMA hints (that is
:mod:`toolkit.allocation.cpu.manager`). Source: ``docs/specification.md``, "Static policy options".
"""

from __future__ import annotations

from functools import partial

from toolkit.allocation.cpu.options.option import Choice
from toolkit.allocation.cpu.options.switched_on import CpuPolicyOptions
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
    choice = Choice(
        machine=machine,
        available=available.mask,
        count=count,
        foreign=0 if quirks else foreign.mask,
        unit=options.unit(machine),
        take=partial(take_packed, machine, steps=options.steps, quirks=quirks),
        quirks=quirks,
    )
    return CpuSet(options.choose(choice))


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

    What counts as near is the options' word: with ``align-by-socket`` a node stands for its whole socket. On an
    irregular machine the second choice can bring along a CPU that the first one has already; as in the kubelet it
    counts twice, and there is one CPU less than asked for.
    Source: kubernetes v1.36.2, pkg/kubelet/cm/cpumanager/policy_static.go, ``allocateCPUs``.

    :raises CpuShortageError: there are not enough.
    """
    near = CpuSet()
    if numa_nodes is not None:
        aligned = available & options.near(machine, numa_nodes)
        near = take_cpus(machine, aligned, min(count, len(aligned)), options, foreign=foreign, quirks=quirks)
    return near | take_cpus(machine, available - near, count - len(near), options, foreign=foreign, quirks=quirks)
