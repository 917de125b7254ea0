"""The scheduling cycle: a CPU Manager policy whose choice is made by plugins.

For one container or pod: Filter (CPUs that no plugin excludes), PreScore (single CPUs), Select (proposals), Score
(proposals; the best sum wins, the first one a tie), Allocate. If nothing is left to propose: PostFilter names holders
that give up, they are released, Deallocate, and the cycle runs once more. Sort orders pods that wait.

Everything else (requests, alignment check, reuse by later containers, pod-level division, checkpoint checks) is the
static policy's. Hints are computed from filtered CPUs, so that no node is recommended where every CPU is excluded.
Source: ``docs/specification.md``, "CPU Manager Plugin Model", option 2 (the Topology Manager does not change).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

from toolkit.allocation.admission import UNEXPECTED
from toolkit.allocation.cpu.assignment import CpuShortageError
from toolkit.allocation.cpu.refusal import CpuAdmissionError
from toolkit.allocation.cpu.state import CpuState
from toolkit.allocation.cpu.static import StaticPolicy
from toolkit.allocation.plugins.protocol import CpuAsk, CpuPlugin, Holding
from toolkit.allocation.plugins.static import StaticPlugin
from toolkit.errors import InputError
from toolkit.kubernetes.pod import Container, Pod
from toolkit.model.cpuset import EMPTY, CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginPolicy(StaticPolicy):
    """The static policy with its choice handed to plugins. :param plugins: in the order in which they are asked."""

    plugins: tuple[CpuPlugin, ...] = (StaticPlugin(),)

    @classmethod
    def around(cls, policy: StaticPolicy, plugins: Sequence[CpuPlugin]) -> PluginPolicy:
        """Put plugins into a configured static policy."""
        settings = {item.name: getattr(policy, item.name) for item in fields(StaticPolicy)}
        return cls(**settings, plugins=tuple(plugins))

    def sorted(self, pods: Sequence[Pod]) -> tuple[Pod, ...]:
        """Order waiting pods: the first plugin has the last word.

        :raises InputError: a plugin that loses a pod, or adds one.
        """
        order = tuple(pods)
        for plugin in reversed(self.plugins):
            before, order = order, tuple(plugin.sort(order))
            if Counter(pod.uid for pod in order) != Counter(pod.uid for pod in before):
                raise InputError(f"CPU plugin {plugin.name}", f"sort() returned {len(order)} pods", "each pod once")
        return order

    def _ask(
        self, state: CpuState, pod: Pod, container: Container | None, count: int, nodes: tuple[int, ...] | None
    ) -> CpuAsk:
        return CpuAsk(
            machine=self.machine,
            options=self.options,
            state=state,
            pod=pod,
            container=container,
            count=count,
            numa_nodes=nodes,
        )

    def _filter(self, ask: CpuAsk, cpus: CpuSet) -> CpuSet:
        for plugin in self.plugins:
            cpus &= plugin.filter(ask, cpus)
        return cpus

    def available(self, state: CpuState, pod: Pod, container: Container | None) -> CpuSet:
        """Return free CPUs that no plugin excludes."""
        count = 0 if container is None else self.requested(pod, container)
        free = StaticPolicy.available(self, state, pod, container)
        return self._filter(self._ask(state, pod, container, count, None), free)

    def choose(
        self,
        state: CpuState,
        pod: Pod,
        container: Container | None,
        available: CpuSet,
        count: int,
        nodes: tuple[int, ...] | None,
    ) -> CpuSet:
        """Run the cycle from Filter to Allocate.

        :raises CpuShortageError: no plugin proposes a set that all accept.
        """
        ask = self._ask(state, pod, container, count, nodes)
        cpus = self._filter(ask, available)
        scores: dict[int, float] = {}
        for plugin in self.plugins:
            for cpu, score in plugin.pre_score(ask, cpus).items():
                scores[cpu] = scores.get(cpu, 0.0) + score
        best: tuple[float, CpuSet] | None = None
        for plugin in self.plugins:
            for choice in plugin.select(ask, cpus, scores):
                self._check(plugin, ask, cpus, choice)
                total = self._score(ask, choice)
                if total is not None and (best is None or total > best[0]):
                    best = total, choice
        if best is None:
            raise CpuShortageError(
                f"not enough cpus available to satisfy request: requested={count}, available={len(cpus)}"
            )
        for plugin in self.plugins:
            plugin.allocate(ask, best[1])
        return best[1]

    def _check(self, plugin: CpuPlugin, ask: CpuAsk, cpus: CpuSet, choice: CpuSet) -> None:
        """A plugin that gives away what it was not offered breaks the promise of exclusive CPUs: refuse to go on."""
        extra = choice - cpus
        if self.machine.irregular:
            # The kubelet itself takes whole cores there, with threads that were not offered.
            extra &= EMPTY if self.quirks else ask.state.owned(but_not=ask.pod.uid)
        if len(choice) != ask.count or extra:
            raise InputError(f"CPU plugin {plugin.name}", f"proposes CPUs {choice}", f"{ask.count} out of {cpus}")

    def _score(self, ask: CpuAsk, choice: CpuSet) -> float | None:
        total = 0.0
        for plugin in self.plugins:
            score = plugin.score(ask, choice)
            if score is None:
                return None
            total += score
        return total

    def allocate(self, state: CpuState, pod: Pod, container: Container, numa: int | None) -> CpuState:
        """Give a container its CPUs; PostFilter may make room once."""
        try:
            return StaticPolicy.allocate(self, state, pod, container, numa)
        except CpuAdmissionError as refused:
            if refused.reason != UNEXPECTED:
                raise
            roomier = self._make_room(state, pod, container)
            if roomier is None:
                raise
        try:
            return StaticPolicy.allocate(self, roomier, pod, container, numa)
        except CpuAdmissionError as refused:
            # Nothing gives up CPUs for a pod that is refused all the same.
            raise CpuAdmissionError(refused.reason, refused.message, state) from None

    def _make_room(self, state: CpuState, pod: Pod, container: Container) -> CpuState | None:
        ask = self._ask(state, pod, container, self.requested(pod, container), None)
        cpus = self.available(state, pod, container)
        holdings = [holding for plugin in self.plugins for holding in plugin.post_filter(ask, cpus)]
        held = [holding for holding in holdings if state.assigned(*holding) is not None]
        for holding in held:
            state = self.release(state, *holding)
        return state if held else None

    def release(self, state: CpuState, pod_uid: str, container: str) -> CpuState:
        """Take a container's CPUs back and notify the plugins."""
        cpus = state.assigned(pod_uid, container)
        if cpus is not None:
            for plugin in self.plugins:
                plugin.deallocate(Holding(pod_uid, container), cpus)
        return StaticPolicy.release(self, state, pod_uid, container)
