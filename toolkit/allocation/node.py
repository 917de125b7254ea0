"""One simulated node: the managers of a kubelet wired together in its order, with its state and its restarts.

It decides and remembers; it starts no container and touches no file. Source: ``docs/simulate-format.md`` sections
"EVENT" and "expect"; Kubernetes documentation "Control Topology Management Policies on a node" (admission).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from toolkit.allocation.admission import OUT_OF, Admission, AdmissionError, StartupError, invalid, topology_affinity
from toolkit.allocation.budgets import as_seen
from toolkit.allocation.capacity import Lack, Requests, lacks_room
from toolkit.allocation.checkpoint.cpu import restore_cpu_state, write_cpu_checkpoint
from toolkit.allocation.checkpoint.format import CheckpointError
from toolkit.allocation.checkpoint.found import Checkpoints, FoundFiles
from toolkit.allocation.checkpoint.memory import restore_memory_state, write_memory_checkpoint
from toolkit.allocation.cpu.manager import CpuAdmissionError, CpuPolicyError
from toolkit.allocation.cpu.state import CpuState
from toolkit.allocation.device.manager import Device, DeviceManager
from toolkit.allocation.machine import Machine
from toolkit.allocation.memory.manager import MemoryManager
from toolkit.allocation.memory.state import MemoryState
from toolkit.allocation.startup import check_node_allocatable, make_managers, node_allocatable, refused_start
from toolkit.allocation.topology.hint import NO_AFFINITY, TopologyHint
from toolkit.allocation.topology.manager import NONE, POD_SCOPE
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import Container, Pod
from toolkit.kubernetes.releases import STATE_AS_TEXT
from toolkit.model.claims import Isolation


def start_node(
    config: NodeConfig,
    machine: Machine,
    *,
    devices: Iterable[Device] = (),
    quirks: bool = False,
    predicate: bool = False,
) -> Node:
    """Start a fresh node for a configuration that a user wrote; parameters are those of :class:`Node`.

    :raises InputError: a kubelet does not start with it on this machine.
    """
    try:
        return Node(config, machine, devices=devices, quirks=quirks, predicate=predicate)
    except StartupError as error:
        raise refused_start(error, machine) from None


class Node:
    """A started kubelet.

    :param checkpoints: the state files that it finds. :param containers: running ones, id -> (pod uid, name).
    :param quirks: reproduce the real components' defects.
    :param predicate: refuse pods that find too little room beside the others, as the last of a kubelet's admit handlers
        does; without it the resource managers decide alone, as in the recordings.
    :raises StartupError: it does not start.
    """

    def __init__(
        self,
        config: NodeConfig,
        machine: Machine,
        *,
        devices: Iterable[Device] = (),
        quirks: bool = False,
        predicate: bool = False,
        checkpoints: Checkpoints = Checkpoints(),  # noqa: B008 - an immutable value
        containers: dict[str, tuple[str, str]] | None = None,
    ) -> None:
        self.config = config
        self.machine = machine
        self.quirks = quirks
        self.predicate = predicate
        self.gates = config.feature_gates
        self._wrapped = bool(STATE_AS_TEXT.of(config.series))
        managers = make_managers(config, machine, quirks=quirks)
        self.cpu_policy = managers.cpu
        self.topology = managers.topology
        self.allocatable = node_allocatable(config, machine, managers.reservation)
        """What the node has for pods: CPU, memory, huge pages, and how many pods."""
        self._requests, self._devices = Requests(), tuple(devices)
        self.devices = DeviceManager(self._devices, [node.id for node in machine.nodes])
        pod_level = self.gates.pod_level_managers
        self.memory = MemoryManager(
            config.memory_manager_policy, machine, managers.reserved, pod_level=pod_level, quirks=quirks
        )
        self.active: dict[str, Pod] = {}
        self.hints: dict[str, dict[str, TopologyHint]] = {}
        self.containers = dict(containers or {})
        self._found = FoundFiles()
        written = self._start_cpu(checkpoints.cpu)
        try:
            self._start_memory(checkpoints.memory)
            check_node_allocatable(machine, managers.reservation)
        except StartupError as error:
            error.cpu_file = self._cpu_file() if written else None
            raise
        self._forget_changed()

    def _start_cpu(self, text: str | None) -> bool:
        """Start the CPU Manager over its state file. :returns: whether it writes the file anew."""
        pod_level, policy = self.gates.pod_level_managers, self.cpu_policy
        try:
            state = restore_cpu_state(
                text, policy.name, pod_level=pod_level, wrapped=self._wrapped, containers=self.containers
            )
            self.cpu_state = policy.start(state)
        except (CheckpointError, CpuPolicyError) as error:
            raise StartupError("cpu-manager-start", str(error)) from None
        # What finds an empty shared pool fills it, and writes that even if there is nothing to fill it with.
        if state is None or (policy.name != "none" and not state.default):
            return True
        self._found.note("cpu", text, self._cpu_file(state))
        return False

    def _start_memory(self, text: str | None) -> None:
        pod_level, policy = self.gates.pod_level_managers, self.config.memory_manager_policy
        try:
            state = restore_memory_state(text, policy, pod_level=pod_level, wrapped=self._wrapped)
        except CheckpointError as error:
            raise StartupError("memory-manager-start", str(error)) from None
        self._found.note("memory", text, self._memory_file(state))
        self.memory.start(state)

    def take_over(
        self,
        found: Checkpoints,
        pods: Iterable[Pod],
        containers: Mapping[str, tuple[str, str]] | None = None,
        owners: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]] | None = None,
    ) -> None:
        """Go on where the state files of a kubelet that runs stand, with its pods: nothing is admitted again.

        :param containers: as in :class:`Node`. :param owners: of devices, as the Device Manager's own.
        :raises CheckpointError: no kubelet of this release reads the files.
        """
        pod_level, wrapped = self.gates.pod_level_managers, self._wrapped
        self.containers = dict(containers or {})
        cpu = restore_cpu_state(
            found.cpu, self.cpu_policy.name, pod_level=pod_level, wrapped=wrapped, containers=self.containers
        )
        policy = self.config.memory_manager_policy
        memory = restore_memory_state(found.memory, policy, pod_level=pod_level, wrapped=wrapped)
        self.cpu_state = self.cpu_state if cpu is None else cpu
        self.memory.state = self.memory.state if not memory.nodes else memory
        self.devices.owners = {key: dict(value) for key, value in (owners or {}).items()}
        self.active = {pod.uid: pod for pod in pods}

    # Pods

    def admit(self, pod: Pod) -> Admission:
        """Let a pod arrive: allocate for all its containers, or refuse it and clean up."""
        others = [other for uid, other in self.active.items() if uid != pod.uid]
        self.active[pod.uid] = pod
        result = self._decide(pod, others)
        if not result.admitted:
            del self.active[pod.uid]
            self.clean_up()
        self._forget_changed()
        return result

    def _decide(self, pod: Pod, others: Iterable[Pod]) -> Admission:
        """Ask the handlers in the kubelet's order: the managers allocate before the room is looked at."""
        result = self.attempt(pod)
        lack = self.lacking(pod, others) if self.predicate and result.admitted else None
        return result if lack is None else Admission(False, f"{OUT_OF}{lack.resource}", lack.message)

    def seen(self, pod: Pod) -> Pod:
        """Return a pod as this kubelet sees it; its managers, and the next kubelet, see it as it was given."""
        return as_seen(pod, self.gates)

    def lacking(self, pod: Pod, others: Iterable[Pod]) -> Lack | None:
        """Return of what these other pods leave too little for a pod."""
        return lacks_room(self.seen(pod), map(self.seen, others), self.allocatable, self._requests)

    def attempt(self, pod: Pod) -> Admission:
        """Let the managers allocate what the pod does not have yet; the first refusal counts, and nothing cleans up."""
        try:
            if pod.invalid:
                raise invalid(pod.invalid)
            self._allocate_all(pod)
        except AdmissionError as error:
            return Admission(False, error.reason, error.message)
        return Admission(True)

    def _allocate_all(self, pod: Pod) -> None:
        budget = pod.pod_level and self.gates.pod_level_managers
        if self.topology.policy == NONE:
            for container in pod.containers:
                self._allocate(pod, container, NO_AFFINITY)
        elif self.topology.scope == POD_SCOPE:
            hint, admit = self.topology.merge(
                (
                    self.devices.pod_hints(pod),
                    self.cpu_policy.pod_hints(self.cpu_state, pod),
                    self.memory.pod_hints(pod),
                )
            )
            if not admit:
                raise topology_affinity(pod_level=budget, scope=POD_SCOPE)
            if budget:
                self.hints[pod.uid] = {container.name: hint for container in pod.containers}
                self._allocate_pod(pod, hint)
                return
            for container in pod.containers:
                self._allocate(pod, container, hint)
        else:
            for container in pod.containers:
                hint, admit = self.topology.merge(
                    (
                        self.devices.container_hints(pod, container),
                        self.cpu_policy.hints(self.cpu_state, pod, container),
                        self.memory.container_hints(pod, container),
                    )
                )
                if not admit:
                    raise topology_affinity(pod_level=budget)
                self._allocate(pod, container, hint)

    def _allocate(self, pod: Pod, container: Container, hint: TopologyHint) -> None:
        if self.topology.policy != NONE:
            self.hints.setdefault(pod.uid, {})[container.name] = hint
        self.devices.allocate(pod, container, hint)
        try:
            self.cpu_state = self.cpu_policy.allocate(self.cpu_state, pod, container, hint.numa)
        except CpuAdmissionError as error:
            self.cpu_state = error.state
            raise
        finally:
            self._forget_changed()
        self.memory.allocate(pod, container, hint)
        self._forget_changed()

    def _allocate_pod(self, pod: Pod, hint: TopologyHint) -> None:
        self.devices.allocate_pod(pod, hint)
        try:
            self.cpu_state = self.cpu_policy.allocate_pod(self.cpu_state, pod, hint.numa)
        except CpuAdmissionError as error:
            self.cpu_state = error.state
            raise
        finally:
            self._forget_changed()
        self.memory.allocate_pod(pod, hint)
        self._forget_changed()

    def start_container(self, pod: Pod, container: Container) -> None:
        """Note that the runtime starts a container."""
        self.memory.add_container(pod, container)
        self.containers[f"{pod.uid}/{container.name}"] = (pod.uid, container.name)
        self._forget_changed()

    def remove(self, uid: str) -> None:
        """Let a pod go, and clean up after it."""
        self.active.pop(uid, None)
        self.hints.pop(uid, None)
        self.containers = {i: ref for i, ref in self.containers.items() if ref[0] != uid}
        self.clean_up()

    def clean_up(self) -> None:
        """Remove what belongs to no active pod, as the managers do before their next allocation."""
        names = {uid: frozenset(c.name for c in pod.containers) for uid, pod in self.active.items()}
        self.cpu_state = self.cpu_policy.remove_stale(self.cpu_state, names)
        self.memory.remove_stale(self.active)
        self.devices.remove_stale(self.active)
        self._forget_changed()

    # Restart

    def checkpoints(self) -> Checkpoints:
        """Return the state files as they are now.

        A file that an older version has written stays as it is until the state changes.
        """
        return self._found.instead_of(self._written())

    def _written(self) -> Checkpoints:
        return Checkpoints(self._cpu_file(), self._memory_file(self.memory.state))

    def _cpu_file(self, state: CpuState | None = None) -> str:
        """Write the CPU Manager's file as this kubelet does. :param state: ``None``: as it is now."""
        pod_level = self.gates.pod_level_managers
        return write_cpu_checkpoint(state or self.cpu_state, pod_level=pod_level, wrapped=self._wrapped)

    def _memory_file(self, state: MemoryState) -> str:
        policy, pod_level = self.config.memory_manager_policy, self.gates.pod_level_managers
        return write_memory_checkpoint(policy, state, pod_level=pod_level, wrapped=self._wrapped)

    def _forget_changed(self) -> None:
        if self._found:
            self._found.forget_changed(self._written())

    def restarted(self, config: NodeConfig | None = None, machine: Machine | None = None) -> Node:
        """Start a new kubelet over this one's state files; :meth:`readmit` must follow.

        :raises StartupError: it does not start.
        """
        node = Node(
            config or self.config,
            machine or self.machine,
            devices=self._devices,
            quirks=self.quirks,
            predicate=self.predicate,
            checkpoints=self.checkpoints(),
            containers=self.containers,
        )
        node.devices = self.devices
        node.active = dict(self.active)
        return node

    def readmit(self) -> Iterator[tuple[Pod, Admission]]:
        """Admit the active pods of before the restart again, one by one in their order.

        Nothing is cleaned up before all of them have been through, because the pod sources are not ready. The
        new kubelet knows only of the pods that it has admitted again.
        """
        again: list[Pod] = []
        for pod in list(self.active.values()):
            result = self._decide(pod, again)
            if result.admitted:
                again.append(pod)
            else:
                del self.active[pod.uid]
            yield pod, result
        self.clean_up()

    # Views

    def isolation(self, pod: Pod, container: Container) -> Isolation:
        """Return which tasks share a container's CPUs."""
        return self.cpu_policy.isolation(self.cpu_state, pod, container)
