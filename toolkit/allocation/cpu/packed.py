"""Packed choice of CPUs: whole large units first, then whole caches, whole cores, and single CPUs for the rest.

Also ``prefer-align-cpus-by-uncorecache`` and ``distribute-cpus-across-cores``, which the kubelet implements as
variations of the same walk. Sizes that the kubelet takes from totals (CPUs per socket, threads per core) are taken
from totals here too, because irregular machines are decided by exactly that.

On irregular machines a core (or socket) whose *free* CPUs happen to be as many as the average core has is taken with
all its CPUs, also those that are not free. So a reserved CPU can be given away, and a CPU of another pod given out
twice. The caller says which CPUs must not be taken that way (``foreign``); the real component protects none.
With ``quirks`` another defect is reproduced: where a unit appears twice in an order (caches that span NUMA nodes),
taking it twice counts twice.

Source: ``docs/simulate-format.md`` section "Semantics that may surprise"; ``docs/specification.md``.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.allocation.cpu.groups import CpuGroups, Group, cpu_groups, fullest, lowest
from toolkit.allocation.machine import Machine


class CpuShortageError(Exception):
    """The CPUs asked for cannot be found; the message is the kubelet's."""


def take_packed(
    machine: Machine,
    available: int,
    count: int,
    *,
    spread: bool = False,
    by_uncore: bool = False,
    foreign: int = 0,
    quirks: bool = False,
) -> int:
    """Choose ``count`` CPUs out of the mask ``available``.

    :param spread: ``distribute-cpus-across-cores``. :param by_uncore: ``prefer-align-cpus-by-uncorecache``.
    :param foreign: mask of CPUs that no whole unit may bring along.
    :raises CpuShortageError: fewer than ``count`` are available.
    """
    if count < 1:
        return 0
    if count > available.bit_count():
        raise CpuShortageError(
            f"not enough cpus available to satisfy request: requested={count}, available={available.bit_count()}"
        )
    walk = _Walk(machine, available, count, foreign, quirks)
    walk.take_large_units()
    if by_uncore and walk.need > 0:
        walk.take_uncores()
    if not spread and walk.need > 0:
        walk.take_cores()
    if walk.need > 0:
        walk.take_single(spread)
    if walk.need > 0:
        raise CpuShortageError("failed to allocate cpus")
    return walk.result


class _Walk:
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

    def _take(self, mask: int) -> None:
        self.result |= mask
        self.free &= ~mask
        self.need -= mask.bit_count()

    def _take_whole(self, groups: Iterable[Group], size: int | None, before: int) -> None:
        """Take groups that are wholly free as long as whole ones are needed.

        :param size: free CPUs that make a group "whole"; ``None``: its own number of CPUs.
        :param before: what was free when the walk over such groups began.
        """
        for _, mask in groups:
            if (mask & before).bit_count() != (mask.bit_count() if size is None else size):
                continue
            if self.need < mask.bit_count() or mask & self.foreign:
                continue
            if self.quirks or not mask & self.result:
                self._take(mask)

    def take_large_units(self) -> None:
        """Take whole sockets and whole NUMA nodes, the larger unit first."""
        for sockets in (self.groups.sockets_first, not self.groups.sockets_first):
            if self.need <= 0:
                return
            if sockets:
                self._take_whole(self.groups.sockets(self.free), self.machine.cpus_per_socket, self.free)
            else:
                self._take_whole(self.groups.numa_nodes(self.free), None, self.free)

    def take_uncores(self) -> None:
        """Take whole caches while a cache's worth is needed, then the rest from one cache that can hold all of it."""
        per_uncore = self.machine.cpus_per_uncore
        for _, mask in self.groups.uncores(self.free):
            if self.need >= per_uncore:
                self._take_whole(self.groups.uncores(self.free), None, self.free)
            if self.need > 0:
                self._take_part_of(mask)
            if self.need <= 0:
                return

    def _take_part_of(self, uncore: int) -> None:
        """Take all that is needed from the cache's lowest cores with free CPUs, or nothing."""
        threads = self.machine.cpus_per_core
        wanted = -(-self.need // threads)
        found = 0
        for core in self.machine.core_masks.values():
            if core & uncore & self.free:
                found |= core & self.free
                wanted -= 1
                if not wanted:
                    break
        # An odd request on an SMT machine needs one thread less than whole cores have.
        if self.need % 2 and threads > 1 and found.bit_count() > self.need:
            found ^= 1 << found.bit_length() - 1
        if found.bit_count() == self.need:
            self._take(found)

    def take_cores(self) -> None:
        """Take whole cores while a core's worth is needed."""
        threads = self.machine.cpus_per_core
        before = self.free
        for cores in self.groups.core_lists(before):
            if self.need < threads:
                return
            # Whole cores of one unit have equally many free threads, so ascending ids are their order.
            self._take_whole(cores, threads, before)

    def take_single(self, spread: bool) -> None:
        """Take single CPUs: from the cores with the fewest free threads, or (spread) ascending within a socket."""
        before = self.free
        if spread:
            self._take_lowest(self.groups.sockets(before), before)
            return
        for cores in self.groups.core_lists(before):
            self._take_lowest(fullest(cores, before), before)
            if self.need <= 0:
                return

    def _take_lowest(self, groups: Iterable[Group], before: int) -> None:
        for _, mask in groups:
            self._take(lowest(mask & (before if self.quirks else self.free), self.need))
            if self.need <= 0:
                return
