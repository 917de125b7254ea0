"""What a CPU plugin is: eight extension points, each of which may be left as it is.

Plugins are deterministic and see frozen values only: same question, same answer. The order in which the points are
called is in :mod:`toolkit.allocation.plugins.policy`.
Source: ``docs/specification.md``, "Plugin extensibility points".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from toolkit.allocation.cpu.options.switched_on import CpuPolicyOptions
from toolkit.allocation.cpu.state import CpuState
from toolkit.allocation.machine import Machine
from toolkit.kubernetes.pod import Container, Pod
from toolkit.model.cpuset import CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuAsk:
    """The question: ``count`` CPUs for a container, or for a pod as a whole (``container`` is ``None``).

    :param numa_nodes: the topology hint's nodes, ``None`` without one. :param state: what owns what at this moment.
    """

    machine: Machine
    options: CpuPolicyOptions
    state: CpuState
    pod: Pod
    container: Container | None
    count: int
    numa_nodes: tuple[int, ...] | None = None


class Holding(NamedTuple):
    """A container that has CPUs of its own."""

    pod_uid: str
    container: str


@runtime_checkable
class CpuPlugin(Protocol):
    """The extension points. :class:`BasePlugin` has the neutral answer to each."""

    name: str

    def sort(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Put pods that wait for CPUs in the order in which they are served."""

    def filter(self, ask: CpuAsk, cpus: CpuSet) -> CpuSet:
        """Leave out CPUs that must not be given; what is not in ``cpus`` cannot be added."""

    def post_filter(self, ask: CpuAsk, cpus: CpuSet) -> Sequence[Holding]:
        """Too few CPUs are left: name holders that give theirs up, so that the question can be asked again."""

    def pre_score(self, ask: CpuAsk, cpus: CpuSet) -> Mapping[int, float]:
        """Return how well single CPUs suit; CPUs that are not named suit neither well nor badly."""

    def select(self, ask: CpuAsk, cpus: CpuSet, scores: Mapping[int, float]) -> Iterable[CpuSet]:
        """Propose sets of ``ask.count`` CPUs, the best first."""

    def score(self, ask: CpuAsk, choice: CpuSet) -> float | None:
        """Rate a proposal; ``None`` forbids it."""

    def allocate(self, ask: CpuAsk, choice: CpuSet) -> None:
        """Hear that the proposal was taken."""

    def deallocate(self, holding: Holding, cpus: CpuSet) -> None:
        """Hear that a container gave its CPUs up."""


class BasePlugin:
    """A plugin without an opinion: derive from it and override what matters."""

    name = "base"

    def sort(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Keep the order."""
        return pods

    def filter(self, ask: CpuAsk, cpus: CpuSet) -> CpuSet:
        """Keep every CPU."""
        return cpus

    def post_filter(self, ask: CpuAsk, cpus: CpuSet) -> Sequence[Holding]:
        """Name nothing."""
        return ()

    def pre_score(self, ask: CpuAsk, cpus: CpuSet) -> Mapping[int, float]:
        """Rate no CPU."""
        return {}

    def select(self, ask: CpuAsk, cpus: CpuSet, scores: Mapping[int, float]) -> Iterable[CpuSet]:
        """Propose nothing."""
        return ()

    def score(self, ask: CpuAsk, choice: CpuSet) -> float | None:
        """Rate every proposal alike."""
        return 0.0

    def allocate(self, ask: CpuAsk, choice: CpuSet) -> None:
        """Take no notice."""

    def deallocate(self, holding: Holding, cpus: CpuSet) -> None:
        """Take no notice."""
