"""What a node under churn should look like: the allocation model, driven by random operations. Pure.

The same seed gives the same operations on the same machine, as long as the caller reports no refusals of its own.
Source: ``docs/failures.md`` F5-F8, F31, F37 (what goes wrong when pods come and go).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from toolkit.allocation.admission import Admission
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node
from toolkit.allocation.planner import plan_of
from toolkit.kubernetes.node_config import read_settings
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_pod
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, PodPlan


class Operation(StrEnum):
    """What happens to a node."""

    CREATE_EXCLUSIVE = "create-exclusive"
    """The shared pool shrinks."""
    CREATE_SHARED = "create-shared"
    DELETE = "delete"
    """Of an exclusive pod: the shared pool grows."""
    RESTART = "restart"
    """All tasks of a container are killed and started again."""
    EXEC = "exec"
    """One process more in a container that runs."""
    RESIZE = "resize"
    """Another CPU limit for a running Burstable container."""
    KUBELET_RESTART = "kubelet-restart"
    """The model starts anew from its state files: nothing may change."""


WEIGHTS = {
    Operation.CREATE_EXCLUSIVE: 4,
    Operation.CREATE_SHARED: 4,
    Operation.DELETE: 5,
    Operation.RESTART: 3,
    Operation.EXEC: 3,
    Operation.RESIZE: 2,
    Operation.KUBELET_RESTART: 1,
}
MAX_PODS = 6
LIMITS_MILLICORES = (50, 75, 100, 130)
"""Of shared containers. All of them together leave a fifth of a reserved CPU: it may be all that is shared, and the
observer runs there too. It would be starved for minutes by kernels that put busy cgroups first (docs/facts.md K34)."""
CONTAINER = "c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operation, with the pod that it is about (empty: the node)."""

    operation: Operation
    pod: str = ""
    admission: Admission | None = None


@dataclass(slots=True)
class ChurnModel:
    """A simulated node and the dice.

    :param machine: what the kubelet sees. :param reserved: CPUs that no container ever owns.
    """

    machine: Machine
    reserved: CpuSet
    dice: random.Random
    node: Node = field(init=False)
    pods: dict[str, Pod] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        config = read_settings({"cpuManagerPolicy": "static", "reservedSystemCPUs": str(self.reserved)}, "churn")
        self.node = Node(config, self.machine)

    def plans(self) -> dict[str, PodPlan]:
        """Return what every pod should have now."""
        rows = [(pod, Admission(True), self.node.cpu_state.default) for pod in self.pods.values()]
        return {pod.name: pod for pod in plan_of(self.node, rows).pods}

    def containers(self) -> dict[str, ContainerPlan]:
        """Return the one container of every pod."""
        return {name: pod.containers[0] for name, pod in self.plans().items()}

    def problems(self) -> list[str]:
        """Return what is wrong with the model's own state: an exclusive CPU that has two owners."""
        found = []
        containers = self.containers()
        for name, one in containers.items():
            for other, two in containers.items():
                if name != other and one.isolation is Isolation.CONTAINER and one.cpus & two.cpus:
                    found.append(f"CPUs {one.cpus & two.cpus} of {name} are also {other}'s")
            if one.isolation is Isolation.CONTAINER and one.cpus & self.reserved:
                found.append(f"reserved CPUs {one.cpus & self.reserved} are {name}'s")
        return found

    def step(self) -> Step:
        """Let one thing happen."""
        possible = [operation for operation in Operation if self._possible(operation)]
        (operation,) = self.dice.choices(possible, [WEIGHTS[one] for one in possible])
        if operation in (Operation.CREATE_EXCLUSIVE, Operation.CREATE_SHARED):
            return self._create(operation)
        if operation is Operation.KUBELET_RESTART:
            self.node = self.node.restarted()
            for _ in self.node.readmit():
                pass
            return Step(operation=operation)
        if operation is Operation.RESIZE:
            return self._resize()
        name = self.dice.choice(sorted(self.pods))
        if operation is Operation.DELETE:
            self.node.remove(self.pods.pop(name).uid)
        return Step(operation=operation, pod=name)

    def _possible(self, operation: Operation) -> bool:
        if operation in (Operation.CREATE_EXCLUSIVE, Operation.CREATE_SHARED):
            return len(self.pods) < MAX_PODS
        if operation is Operation.RESIZE:
            return bool(self._burstable())
        return bool(self.pods) or operation is Operation.KUBELET_RESTART

    def _burstable(self) -> list[str]:
        return sorted(name for name in self.pods if name.startswith("shared"))

    def _create(self, operation: Operation) -> Step:
        self.count += 1
        if operation is Operation.CREATE_EXCLUSIVE:
            name, amount = f"own{self.count}", {"cpu": str(self.dice.randint(1, 2)), "memory": "16Mi"}
            pod = _pod(name, {"requests": amount, "limits": amount})
        else:
            name = f"shared{self.count}"
            pod = _pod(name, self._limits())
        admission = self.node.admit(pod)
        if admission.admitted:
            self.pods[name] = pod
        return Step(operation=operation, pod=name, admission=admission)

    def _resize(self) -> Step:
        name = self.dice.choice(self._burstable())
        pod = _pod(name, self._limits())
        self.pods[name] = self.node.active[pod.uid] = pod
        return Step(operation=Operation.RESIZE, pod=name)

    def _limits(self) -> dict[str, Any]:
        return {"requests": {"cpu": "50m"}, "limits": {"cpu": f"{self.dice.choice(LIMITS_MILLICORES)}m"}}


def _pod(name: str, resources: dict[str, Any]) -> Pod:
    spec = {"containers": [{"name": CONTAINER, "resources": resources}]}
    return read_pod({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": name}, "spec": spec}, name)
