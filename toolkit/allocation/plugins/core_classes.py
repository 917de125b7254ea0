"""Example plugin: performance and efficiency cores on hybrid machines.

A class is a named CPU set. A pod (or ``pod/container``) can require a class, or prefer one; whole cores are given
before single threads. The kubelet's own policy takes the average number of threads per core for every core's, so on
such machines it splits cores that it could give whole; this plugin does not.
Source: ``docs/specification.md`` (P-cores for demanding services, E-cores for background tasks).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from toolkit.allocation.cpu.groups import lowest
from toolkit.allocation.machine import Machine
from toolkit.allocation.plugins.protocol import BasePlugin, CpuAsk
from toolkit.errors import InputError
from toolkit.kubernetes.pod import Pod
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.topology import CoreType

PERFORMANCE = "performance"
EFFICIENCY = "efficiency"
_KERNEL_NAMES = {"core": PERFORMANCE, "atom": EFFICIENCY}


def classes_by_threads(machine: Machine) -> dict[str, CpuSet]:
    """Guess classes where the kernel names none: cores with the most threads perform, the others save energy."""
    most = max((mask.bit_count() for mask in machine.core_masks.values()), default=0)
    fast = 0
    for mask in machine.core_masks.values():
        if mask.bit_count() == most:
            fast |= mask
    slow = machine.cpus.mask & ~fast
    return {PERFORMANCE: CpuSet(fast), EFFICIENCY: CpuSet(slow)} if slow else {PERFORMANCE: CpuSet(fast)}


def classes_by_kernel(core_types: Iterable[CoreType]) -> dict[str, CpuSet]:
    """Take over the kernel's core types; ``core`` and ``atom`` get the words of this module."""
    return {_KERNEL_NAMES.get(kind.name, kind.name): kind.cpus for kind in core_types}


class CoreClassPlugin(BasePlugin):
    """Gives containers cores of a class.

    :param classes: name -> CPUs. :param required, preferred: ``pod`` or ``pod/container`` -> class.
    :raises InputError: a class that the machine does not have.
    """

    name = "core-classes"

    def __init__(
        self,
        classes: Mapping[str, CpuSet],
        *,
        required: Mapping[str, str] | None = None,
        preferred: Mapping[str, str] | None = None,
    ) -> None:
        self.classes = dict(classes)
        self.required = dict(required or {})
        self.preferred = dict(preferred or {})
        for subject, wish in (*self.required.items(), *self.preferred.items()):
            if wish not in self.classes:
                raise InputError(f"core class of {subject}", repr(wish), "one of " + ", ".join(sorted(self.classes)))

    def _wish(self, wishes: Mapping[str, str], ask: CpuAsk) -> str | None:
        own = None if ask.container is None else wishes.get(f"{ask.pod.name}/{ask.container.name}")
        return own if own is not None else wishes.get(ask.pod.name)

    def sort(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Serve pods that require a class before those that could go elsewhere; else keep the order."""
        strict = {subject.partition("/")[0] for subject in self.required}
        return sorted(pods, key=lambda pod: pod.name not in strict)

    def filter(self, ask: CpuAsk, cpus: CpuSet) -> CpuSet:
        """Leave only the required class."""
        wish = self._wish(self.required, ask)
        return cpus if wish is None else cpus & self.classes[wish]

    def pre_score(self, ask: CpuAsk, cpus: CpuSet) -> Mapping[int, float]:
        """Rate CPUs of the wanted class 1."""
        wish = self._wish(self.required, ask) or self._wish(self.preferred, ask)
        return {} if wish is None else dict.fromkeys(cpus & self.classes[wish], 1.0)

    def select(self, ask: CpuAsk, cpus: CpuSet, scores: Mapping[int, float]) -> Iterable[CpuSet]:
        """Propose whole cores of the best rated CPUs first, near the hint before far; nothing without a wish."""
        if self._wish(self.required, ask) is None and self._wish(self.preferred, ask) is None:
            return ()
        near = cpus if ask.numa_nodes is None else cpus & ask.options.near(ask.machine, ask.numa_nodes)
        chosen, need = EMPTY, ask.count
        for pool in (near, cpus):
            for score in sorted({scores.get(cpu, 0.0) for cpu in pool}, reverse=True):
                rated = CpuSet.of(cpu for cpu in pool if scores.get(cpu, 0.0) == score) - chosen
                part = _whole_cores_first(ask.machine, rated, need)
                chosen, need = chosen | part, need - len(part)
        return (chosen,) if need == 0 else ()

    def score(self, ask: CpuAsk, choice: CpuSet) -> float | None:
        """Rate a proposal by its share of CPUs in the wanted class; one outside a required class is forbidden."""
        required = self._wish(self.required, ask)
        if required is not None and not choice <= self.classes[required]:
            return None
        wish = required or self._wish(self.preferred, ask)
        return 0.0 if wish is None else len(choice & self.classes[wish]) / max(ask.count, 1)


def _whole_cores_first(machine: Machine, cpus: CpuSet, need: int) -> CpuSet:
    """Take whole free cores while they fit, then threads of cores that are broken already, then of whole ones."""
    taken = 0
    partial: list[int] = []
    for core in machine.core_masks.values():
        free = core & cpus.mask
        if free == core and free.bit_count() <= need:
            taken |= free
            need -= free.bit_count()
        elif free:
            partial.append(free)
    for free in sorted(partial, key=int.bit_count):
        part = lowest(free & ~taken, need)
        taken |= part
        need -= part.bit_count()
    return CpuSet(taken)
