"""The ``static`` policy of the CPU Manager as pure transitions from one state to the next.

Nothing here reads files, keeps time or talks to a runtime. The caller (Topology Manager, admission) decides when stale
state is removed and which hint an allocation gets. A refused allocation raises :class:`CpuAdmissionError` with the
kubelet's reason and message and with the state that the attempt leaves behind.

Source: ``docs/specification.md``; KEP-5526; ``docs/simulate-format.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.allocation.admission import SMT_ALIGNMENT
from toolkit.allocation.cpu.assignment import CpuShortageError, take_cpus, take_cpus_near
from toolkit.allocation.cpu.hints import cpu_hints
from toolkit.allocation.cpu.options.option import CpuPolicyError
from toolkit.allocation.cpu.options.switched_on import CpuPolicyOptions
from toolkit.allocation.cpu.refusal import CpuAdmissionError, unexpected_shortage
from toolkit.allocation.cpu.requests import exclusive_cpus, pod_exclusive_cpus
from toolkit.allocation.cpu.state import CpuState
from toolkit.allocation.machine import Machine
from toolkit.allocation.pod_level.cpu import allocate_pod, refuse_empty_pool, release_pod
from toolkit.allocation.topology.hint import Hints
from toolkit.kubernetes.pod import CPU, Container, Pod
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import EMPTY, CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPolicy:
    """The ``static`` policy.

    :param reserved_cores: the reserved CPUs with all their siblings.
    :param pod_level_managers: feature gates ``PodLevelResourceManagers`` and ``PodLevelResources`` are both on.
    :param quirks: reproduce the real component's defects.
    """

    machine: Machine
    options: CpuPolicyOptions
    reserved: CpuSet
    reserved_cores: CpuSet
    pod_level_managers: bool = False
    quirks: bool = False
    name: str = "static"

    @property
    def strict_reservation(self) -> bool:
        """Whether the shared pool of an empty node has no reserved CPU."""
        return self.options.pool(self.machine.cpus, self.reserved).isdisjoint(self.reserved)

    @property
    def allocatable(self) -> CpuSet:
        """All CPUs but the reserved ones."""
        return self.machine.cpus - self.reserved

    def available(self, state: CpuState, pod: Pod, container: Container | None) -> CpuSet:
        """Return free CPUs that the container (``None``: the pod as a whole) could get."""
        return state.default - self.reserved

    def start(self, state: CpuState | None) -> CpuState:
        """Start with an empty or a checkpointed state.

        :raises CpuPolicyError: the state does not fit machine or configuration.
        """
        everything = self.options.pool(self.machine.cpus, self.reserved)
        if state is None or not state.default:
            if state is not None and state.entries:
                raise CpuPolicyError("default cpuset cannot be empty")
            fresh = CpuState(self.name) if state is None else state.restarted()
            return fresh._replace(default=everything)
        refusal = self.options.refuse_pool(self.reserved, state.default)
        if refusal:
            raise CpuPolicyError(refusal)
        known = state.default.mask
        for uid, containers in sorted(state.entries.items()):
            for name, cpus in sorted(containers.items()):
                if cpus.mask & state.default.mask:
                    raise CpuPolicyError(
                        f'pod: {uid}, container: {name} cpuset: "{cpus}" overlaps with default cpuset "{state.default}"'
                    )
                known |= cpus.mask
        if self.pod_level_managers:
            for cpus in state.pods.values():
                known |= cpus.mask
        if known != everything.mask:
            raise CpuPolicyError(
                f'current set of available CPUs "{everything}" doesn\'t match with CPUs in state "{CpuSet(known)}"'
            )
        return state.restarted()

    def requested(self, pod: Pod, container: Container) -> int:
        """Return how many exclusive CPUs the container asks for."""
        return exclusive_cpus(pod, container, pod_level_managers=self.pod_level_managers)

    def unmanaged(self, pod: Pod) -> bool:
        """Whether the pod has a pod-level budget that, without the gate, nothing looks after."""
        return pod.pod_level and not self.pod_level_managers

    def hints(self, state: CpuState, pod: Pod, container: Container) -> Hints:
        """Return the topology hints for a container."""
        count = self.requested(pod, container)
        if count == 0 or self.unmanaged(pod):
            return {}
        own = state.assigned(pod.uid, container.name)
        if own is None:
            return self._hints(self.available(state, pod, container), state.reusable(pod.uid), count)
        return self._hints(own, CpuSet(), count) if len(own) == count else {CPU: ()}

    def pod_hints(self, state: CpuState, pod: Pod) -> Hints:
        """Return the topology hints for a pod as a whole."""
        count = pod_exclusive_cpus(pod, pod_level_managers=self.pod_level_managers)
        if count == 0 or self.unmanaged(pod):
            return {}
        if pod.pod_level and refuse_empty_pool(pod, count, self.requested):
            return {CPU: ()}
        own = 0
        for container in pod.containers:
            cpus = state.assigned(pod.uid, container.name)
            if cpus is not None:
                if len(cpus) != self.requested(pod, container):
                    return {CPU: ()}
                own |= cpus.mask
        if own.bit_count() == count:
            return self._hints(CpuSet(own), CpuSet(), count)
        return self._hints(self.available(state, pod, None), state.reusable(pod.uid) | CpuSet(own), count)

    def _hints(self, available: CpuSet, reusable: CpuSet, count: int) -> Hints:
        return {CPU: cpu_hints(self.machine, available.mask, reusable.mask, count, self.options)}

    def allocate(self, state: CpuState, pod: Pod, container: Container, numa: int | None) -> CpuState:
        """Give a container its CPUs, as the hint's nodes have them first.

        :raises CpuAdmissionError: misaligned request, or too few CPUs.
        """
        count = self.requested(pod, container)
        if count == 0 or self.unmanaged(pod):
            return state
        self.check_alignment(state, count)
        cpus = state.assigned(pod.uid, container.name)
        if cpus is None:
            cpus = self.take_for(state, pod, container, count, numa)
            state = state.with_entry(pod.uid, container.name, cpus)._replace(default=state.default - cpus)
        # Only the pod allocated last is remembered. What regular init containers had is free for those that follow.
        reuse = state.reusable(pod.uid)
        reuse = reuse | cpus if container.is_regular_init else reuse - cpus
        return state._replace(reuse_pod=pod.uid, reuse=reuse)

    def allocate_pod(self, state: CpuState, pod: Pod, numa: int | None) -> CpuState:
        """Give a pod-level pod one CPU set (pod scope) and divide it among its containers.

        :raises CpuAdmissionError: no CPU for the shared containers, misaligned request, or too few CPUs.
        """
        count = pod_exclusive_cpus(pod, pod_level_managers=self.pod_level_managers)
        if count == 0:
            return state
        return allocate_pod(self, state, pod, count, numa)

    def choose(
        self,
        state: CpuState,
        pod: Pod,
        container: Container | None,
        available: CpuSet,
        count: int,
        nodes: tuple[int, ...] | None,
    ) -> CpuSet:
        """Choose ``count`` CPUs out of ``available``, those of the hint's nodes first.

        :raises CpuShortageError: there are not enough.
        """
        foreign = state.owned(but_not=pod.uid) if self.machine.irregular else EMPTY
        return take_cpus_near(self.machine, available, count, self.options, nodes, foreign=foreign, quirks=self.quirks)

    def take_for(self, state: CpuState, pod: Pod, container: Container | None, count: int, numa: int | None) -> CpuSet:
        """Choose CPUs for a container, or (``None``) for its pod as a whole.

        :raises CpuAdmissionError: there are not enough.
        """
        available = self.available(state, pod, container)
        if container is not None:
            available |= state.reusable(pod.uid)
        nodes = None if numa is None else tuple(CpuSet(numa))
        try:
            return self.choose(state, pod, container, available, count, nodes)
        except CpuShortageError as error:
            raise unexpected_shortage(self._as_reported(error, available, count, nodes), state) from None

    def _as_reported(
        self, error: CpuShortageError, available: CpuSet, count: int, nodes: tuple[int, ...] | None
    ) -> CpuShortageError:
        """Return the shortage with the number of CPUs that the kubelet reports.

        It counts what the hint's nodes left over, and there an irregular core may have brought a foreign CPU along.
        """
        if self.machine.irregular and not self.quirks:
            try:
                take_cpus_near(self.machine, available, count, self.options, nodes, quirks=True)
            except CpuShortageError as reported:
                return reported
        return error

    def take_part(self, available: CpuSet, count: int) -> CpuSet:
        """Choose CPUs out of those of a pod, and none outside: an irregular core must not bring one along.

        :raises CpuShortageError: there are not enough.
        """
        outside = self.machine.cpus - available if self.machine.irregular else EMPTY
        return take_cpus(self.machine, available, count, self.options, foreign=outside, quirks=self.quirks)

    def check_alignment(self, state: CpuState, count: int) -> None:
        """Refuse what the options do not give.

        :raises CpuAdmissionError: misaligned request, or too few whole cores.
        """
        # CPUs that the pod could use again are not counted here, not even by a container that has its CPUs already.
        refusal = self.options.refuse_request(self.machine, count, len(state.default - self.reserved_cores))
        if refusal:
            raise CpuAdmissionError(SMT_ALIGNMENT, refusal, state)

    def release(self, state: CpuState, pod_uid: str, container: str) -> CpuState:
        """Take a container's CPUs back, but for those that its pod's other containers use."""
        cpus = state.assigned(pod_uid, container)
        if cpus is None:
            return state
        state = state.without_entry(pod_uid, container)
        siblings = state.entries.get(pod_uid, {})
        if self.pod_level_managers and pod_uid in state.pods:
            return state if siblings else release_pod(state, pod_uid)
        for used in siblings.values():
            cpus -= used
        return state._replace(default=state.default | cpus)

    def remove_stale(self, state: CpuState, active: Mapping[str, frozenset[str]]) -> CpuState:
        """Release every container that is not active."""
        none: frozenset[str] = frozenset()
        for uid, containers in state.entries.items():
            for name in containers:
                if name not in active.get(uid, none):
                    state = self.release(state, uid, name)
        return state

    def isolation(self, state: CpuState, pod: Pod, container: Container) -> Isolation:
        """Return which tasks share the container's CPUs (KEP-5526, ResourceIsolationLevel)."""
        if state.assigned(pod.uid, container.name) is None:
            return Isolation.HOST
        if pod.uid in state.pods and not self.requested(pod, container):
            return Isolation.POD
        return Isolation.CONTAINER

    def defects(self, state: CpuState) -> tuple[str, ...]:
        """Return which promises a state breaks: CPUs with two pods, reserved CPUs given away, leaked CPUs.

        On regular machines, with pods that the API accepts, it breaks none.
        """
        found: list[str] = []
        owners: dict[str, int] = {}
        for uid in sorted({*state.entries, *state.pods}):
            mask = state.pods.get(uid, EMPTY).mask
            for cpus in state.entries.get(uid, {}).values():
                mask |= cpus.mask
            for other, taken in owners.items():
                if mask & taken:
                    found.append(f"CPUs {CpuSet(mask & taken)} belong to pod {other} and to pod {uid}")
            owners[uid] = mask
            if mask & self.reserved.mask:
                found.append(f"reserved CPUs {CpuSet(mask & self.reserved.mask)} were given to pod {uid}")
        leaked = state.leaked(frozenset(state.entries))
        if leaked:
            found.append(f"CPUs {leaked} are held by a pod that has no container")
        return tuple(found)
