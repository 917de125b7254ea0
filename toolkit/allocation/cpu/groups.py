"""The kubelet's orders of NUMA nodes, sockets, caches, cores and CPUs, given what is free: fullest first.

"Fullest" means fewest free CPUs (but at least one), and then lowest id. The order is hierarchical: whatever is the
larger unit, NUMA node or socket, is sorted first, the smaller one within it, cores within the smaller one. This file
knows the order only; what is taken in that order is decided in :mod:`toolkit.allocation.cpu.packed`.

Source: Kubernetes documentation "Control CPU Management Policies" (``docs/specification.md``), static policy options;
KEP-3570/KEP-4176 and the comments on the real component's orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from toolkit.allocation.machine import Machine

Group = tuple[int, int]
"""(id, bitmask of all its online CPUs)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CpuGroups:
    """The machine's groups, nested the way the orders need them.

    :param sockets_first: sockets are the larger unit (fewer sockets than NUMA nodes).
    :param larger, smaller: the two units; ``smaller_in[id]`` are those that share a CPU with the larger unit.
    :param cores_in: by id of the smaller unit. :param uncores_in: by NUMA node.
    """

    sockets_first: bool
    larger: tuple[Group, ...]
    smaller: tuple[Group, ...]
    smaller_in: Mapping[int, tuple[Group, ...]]
    cores_in: Mapping[int, tuple[Group, ...]]
    uncores_in: Mapping[int, tuple[Group, ...]]

    def numa_nodes(self, free: int) -> list[Group]:
        """Return NUMA nodes with free CPUs, in order."""
        return self._smaller(free) if self.sockets_first else fullest(self.larger, free)

    def sockets(self, free: int) -> list[Group]:
        """Return sockets with free CPUs, in order."""
        return fullest(self.larger, free) if self.sockets_first else self._smaller(free)

    def uncores(self, free: int) -> list[Group]:
        """Return uncore caches with free CPUs: NUMA node by NUMA node."""
        found: list[Group] = []
        for node, mask in self.numa_nodes(free):
            # A cache belongs to the node for this purpose only if it has a free CPU in the node.
            here = [group for group in self.uncores_in[node] if group[1] & mask & free]
            found += fullest(here, free)
        return found

    def core_lists(self, free: int) -> Iterator[tuple[Group, ...]]:
        """Give the cores of each smaller unit in the units' order; the cores themselves ascend by id, unsorted."""
        for unit, _ in self._smaller(free):
            yield self.cores_in[unit]

    def _smaller(self, free: int) -> list[Group]:
        found: list[Group] = []
        for unit, mask in fullest(self.larger, free):
            here = [group for group in self.smaller_in[unit] if group[1] & mask & free]
            found += fullest(here, free) if len(here) > 1 else here
        return found


def fullest(groups: Iterable[Group], free: int) -> list[Group]:
    """Sort groups by number of free CPUs, then by id; groups without a free CPU are left out."""
    keyed = [((mask & free).bit_count(), group, mask) for group, mask in groups if mask & free]
    keyed.sort()
    return [(group, mask) for _, group, mask in keyed]


_known: WeakKeyDictionary[Machine, CpuGroups] = WeakKeyDictionary()


def cpu_groups(machine: Machine) -> CpuGroups:
    """Return the machine's groups, computed once."""
    known = _known.get(machine)
    if known is None:
        known = _known[machine] = _build(machine)
    return known


def _build(machine: Machine) -> CpuGroups:
    sockets = tuple(machine.socket_masks.items())
    nodes = tuple(machine.numa_masks.items())
    sockets_first = machine.num_sockets < machine.num_numa
    larger, smaller = (sockets, nodes) if sockets_first else (nodes, sockets)
    cores = tuple(machine.core_masks.items())
    uncores = tuple(machine.uncore_masks.items())
    return CpuGroups(
        sockets_first=sockets_first,
        larger=larger,
        smaller=smaller,
        smaller_in=_inside(larger, smaller),
        cores_in=_inside(smaller, cores),
        uncores_in=_inside(nodes, uncores),
    )


def _inside(outer: tuple[Group, ...], inner: tuple[Group, ...]) -> dict[int, tuple[Group, ...]]:
    return {key: tuple(group for group in inner if group[1] & mask) for key, mask in outer}


def lowest(mask: int, count: int) -> int:
    """Return the ``count`` lowest bits of a mask (all of it if it has fewer)."""
    if count >= mask.bit_count():
        return mask
    rest = mask
    for _ in range(count):
        rest &= rest - 1
    return mask ^ rest
