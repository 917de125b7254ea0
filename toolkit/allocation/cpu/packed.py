"""Packed choice of CPUs: whole large units first, then whole cores, and single CPUs for the rest.

The choice is a walk in steps (:data:`PACKED`), and options of the policy are variations of it, as they are in the
kubelet: they take steps out and put their own in (:mod:`toolkit.allocation.cpu.options`). Sizes that the kubelet takes
from totals (CPUs per socket, threads per core) are taken from totals here too, because irregular machines are decided
by exactly that.

On irregular machines a core (or socket) whose *free* CPUs happen to be as many as the average core has is taken with
all its CPUs, also those that are not free. So a reserved CPU can be given away, and a CPU of another pod given out
twice. The caller says which CPUs must not be taken that way (``foreign``: those of other pods, and, where a pod's own
CPUs are divided, all others); the real component protects none.
With ``quirks`` another defect is reproduced: where a unit appears twice in an order (caches that span NUMA nodes),
taking it twice counts twice.

Source: ``docs/simulate-format.md`` section "Semantics that may surprise"; ``docs/specification.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from toolkit.allocation.cpu.groups import CpuGroups, Group, cpu_groups, fullest, lowest
from toolkit.allocation.machine import Machine


class CpuShortageError(Exception):
    """The CPUs asked for cannot be found; the message is the kubelet's."""


def take_packed(
    machine: Machine,
    available: int,
    count: int,
    *,
    steps: Steps | None = None,
    foreign: int = 0,
    quirks: bool = False,
) -> int:
    """Choose ``count`` CPUs out of the mask ``available``.

    :param steps: ``None`` for :data:`PACKED`; a step is left out when nothing is needed any more.
    :param foreign: mask of CPUs that no whole unit may bring along.
    :raises CpuShortageError: fewer than ``count`` are available.
    """
    if count < 1:
        return 0
    if count > available.bit_count():
        raise CpuShortageError(
            f"not enough cpus available to satisfy request: requested={count}, available={available.bit_count()}"
        )
    walk = Walk(machine, available, count, foreign, quirks)
    for step in PACKED if steps is None else steps:
        if walk.need > 0:
            step(walk)
    if walk.need > 0:
        raise CpuShortageError("failed to allocate cpus")
    return walk.result


class Walk:
    """What is still free, what has been taken, how many are still needed."""

    __slots__ = ("foreign", "free", "groups", "machine", "need", "quirks", "result")

    def __init__(self, machine: Machine, free: int, need: int, foreign: int, quirks: bool) -> None:
        self.machine = machine
        self.groups: CpuGroups = cpu_groups(machine)
        self.free = free
        self.need = need
        self.result = 0
        self.foreign = foreign
        self.quirks = quirks

    def take(self, mask: int) -> None:
        """Take these CPUs."""
        self.result |= mask
        self.free &= ~mask
        self.need -= mask.bit_count()

    def take_whole(self, groups: Iterable[Group], size: int | None, before: int) -> None:
        """Take groups that are wholly free as long as whole ones are needed.

        :param size: free CPUs that make a group "whole"; ``None``: its own number of CPUs.
        :param before: what was free when the walk over such groups began.
        """
        for _, mask in groups:
            # By number, as the kubelet does: on an irregular machine a part of one unit is as large as a whole other.
            if (mask & before).bit_count() != (mask.bit_count() if size is None else size):
                continue
            if self.need < mask.bit_count() or mask & self.foreign:
                continue
            if self.quirks or not mask & self.result:
                self.take(mask)

    def take_lowest(self, groups: Iterable[Group], before: int) -> None:
        """Take single CPUs, the lowest ones of each group in turn."""
        for _, mask in groups:
            self.take(lowest(mask & (before if self.quirks else self.free), self.need))
            if self.need <= 0:
                return


Step = Callable[[Walk], None]
Steps = tuple[Step, ...]


def take_large_units(walk: Walk) -> None:
    """Take whole sockets and whole NUMA nodes, the larger unit first."""
    for sockets in (walk.groups.sockets_first, not walk.groups.sockets_first):
        if walk.need <= 0:
            return
        if sockets:
            walk.take_whole(walk.groups.sockets(walk.free), walk.machine.cpus_per_socket, walk.free)
        else:
            walk.take_whole(walk.groups.numa_nodes(walk.free), None, walk.free)


def take_cores(walk: Walk) -> None:
    """Take whole cores while a core's worth is needed."""
    threads = walk.machine.cpus_per_core
    before = walk.free
    for cores in walk.groups.core_lists(before):
        if walk.need < threads:
            return
        # Whole cores of one unit have equally many free threads, so ascending ids are their order.
        walk.take_whole(cores, threads, before)


def take_single(walk: Walk) -> None:
    """Take single CPUs from the cores with the fewest free threads."""
    # The order stands when the step begins: a core that is half taken by it must not come first because of that.
    before = walk.free
    for cores in walk.groups.core_lists(before):
        walk.take_lowest(fullest(cores, before), before)
        if walk.need <= 0:
            return


PACKED: Steps = (take_large_units, take_cores, take_single)
"""The steps of the policy without options."""
