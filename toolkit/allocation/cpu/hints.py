"""Topology hints of the CPU Manager: every combination of NUMA nodes that could serve a request.

A hint is preferred if it has as few nodes as an empty machine would need; with ``align-by-socket`` also if it touches
as few sockets as that. Source: Kubernetes documentation "Control Topology Management Policies on a node"; KEP-3327.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple
from weakref import WeakKeyDictionary

from toolkit.allocation.cpu.options.switched_on import NO_OPTIONS, CpuPolicyOptions
from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.hint import TopologyHint
from toolkit.errors import InputError

MAX_NUMA_NODES = 16
"""The kubelet has no limit of its own once ``max-allowable-numa-nodes`` is raised; it would run for hours."""


class _Combination(NamedTuple):
    numa: int
    size: int
    cpus: int
    sockets: int


class _Table(NamedTuple):
    combinations: tuple[_Combination, ...]
    most_cpus: tuple[int, ...]
    """By number of nodes: CPUs of the largest combination."""


_tables: WeakKeyDictionary[Machine, _Table] = WeakKeyDictionary()


def cpu_hints(
    machine: Machine, available: int, reusable: int, count: int, options: CpuPolicyOptions = NO_OPTIONS
) -> tuple[TopologyHint, ...]:
    """Return the hints for ``count`` CPUs, combinations of few nodes first.

    :param available: mask of free CPUs. :param reusable: mask of CPUs that must be used again, so every hint's nodes
        hold all of them.
    :raises InputError: more than :data:`MAX_NUMA_NODES` nodes have CPUs.
    """
    table = _table(machine)
    nodes = machine.num_numa
    fewest = next((size for size, most in enumerate(table.most_cpus) if size and most >= count), nodes)
    missing = count - reusable.bit_count()
    # No combination touches 0 sockets: then only the number of nodes counts.
    sockets = options.sockets(machine, fewest)
    return tuple(
        TopologyHint(numa, size == fewest or in_sockets == sockets)
        for numa, size, cpus, in_sockets in table.combinations
        if (cpus & available).bit_count() >= missing and not reusable & ~cpus
    )


def _table(machine: Machine) -> _Table:
    known = _tables.get(machine)
    if known is None:
        known = _tables[machine] = _build(machine)
    return known


def _build(machine: Machine) -> _Table:
    if machine.num_numa > MAX_NUMA_NODES:
        raise InputError(
            "topology hints",
            f"{machine.num_numa} NUMA nodes with CPUs, that is 2^{machine.num_numa} combinations",
            f"at most {MAX_NUMA_NODES} (the kubelet's own default limit is 8)",
        )
    found: list[_Combination] = []
    most = [0] * (machine.num_numa + 1)
    sockets = tuple(machine.socket_masks.values())
    for size in range(1, machine.num_numa + 1):
        for nodes in combinations(machine.numa_masks.items(), size):
            numa = cpus = 0
            for node, mask in nodes:
                numa |= 1 << node
                cpus |= mask
            found.append(_Combination(numa, size, cpus, sum(1 for mask in sockets if mask & cpus)))
            most[size] = max(most[size], cpus.bit_count())
    return _Table(tuple(found), tuple(most))
