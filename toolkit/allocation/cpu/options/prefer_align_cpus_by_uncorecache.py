"""``prefer-align-cpus-by-uncorecache``: a request comes from one uncore (L3) cache if one can hold it.

Otherwise from as few caches as possible; it is a preference, and nothing is refused for it.
Source: Kubernetes documentation "Static policy options"; KEP-4800.
"""

from __future__ import annotations

from toolkit.allocation.cpu.options.option import CpuOption, Promise
from toolkit.allocation.cpu.packed import Steps, Walk, take_large_units
from toolkit.allocation.machine import Machine
from toolkit.model.claims import Preference


def _take_caches(walk: Walk) -> None:
    """Take whole caches while a cache's worth is needed, then the rest from one cache that can hold all of it."""
    per_uncore = walk.machine.cpus_per_uncore
    for _, mask in walk.groups.uncores(walk.free):
        if walk.need >= per_uncore:
            walk.take_whole(walk.groups.uncores(walk.free), None, walk.free)
        if walk.need > 0:
            _take_part_of(walk, mask)
        if walk.need <= 0:
            return


def _take_part_of(walk: Walk, uncore: int) -> None:
    """Take all that is needed from the cache's lowest cores with free CPUs, or nothing."""
    threads = walk.machine.cpus_per_core
    wanted = -(-walk.need // threads)
    found = 0
    for core in walk.machine.core_masks.values():
        if core & uncore & walk.free:
            found |= core & walk.free
            wanted -= 1
            if not wanted:
                break
    # An odd request on an SMT machine needs one thread less than whole cores have.
    if walk.need % 2 and threads > 1 and found.bit_count() > walk.need:
        found ^= 1 << found.bit_length() - 1
    if found.bit_count() == walk.need:
        walk.take(found)


def _steps(steps: Steps) -> Steps:
    after = steps.index(take_large_units) + 1
    return (*steps[:after], _take_caches, *steps[after:])


def _matters(machine: Machine) -> tuple[str, int]:
    return "L3 groups", len(machine.uncore_masks)


OPTION = CpuOption(
    name="prefer-align-cpus-by-uncorecache",
    conflicts=("distribute-cpus-across-cores", "distribute-cpus-across-numa"),
    promise=Promise(preference=Preference.LLC),
    matters=_matters,
    steps=_steps,
)
