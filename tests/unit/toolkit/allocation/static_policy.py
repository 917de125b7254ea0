"""What the tests of the static policy and of its parts build: machines, policies, pods, admissions."""

from __future__ import annotations

from toolkit.allocation.cpu.manager import CpuState, StaticPolicy, make_policy
from toolkit.allocation.machine import Machine
from toolkit.kubernetes.pod import Container, Pod, Resources
from toolkit.kubernetes.quantity import Quantity
from toolkit.model.plan import ContainerRole

SMT8 = Machine.from_vector({"cpus": [[c, c % 4, 0, 0, None] for c in range(8)], "numa": []})
FOUR_NODES = Machine.from_vector({"cpus": [[c, c, c // 4, c // 2, None] for c in range(8)], "numa": []})
INIT, SIDECAR, APP = ContainerRole.INIT, ContainerRole.SIDECAR, ContainerRole.APP


def policy(on: Machine = SMT8, *, gate: bool = False, quirks: bool = False, **options: str) -> StaticPolicy:
    """Build a static policy with one reserved CPU."""
    values = {name.replace("_", "-"): value for name, value in options.items()}
    made = make_policy(
        "static", values, on, reserved_milli=1000, alpha_options=True, pod_level_managers=gate, quirks=quirks
    )
    assert isinstance(made, StaticPolicy)
    return made


def resources(cpu: str, memory: str = "1Gi") -> Resources:
    """Build equal requests and limits."""
    amounts = {"cpu": Quantity.parse(cpu), "memory": Quantity.parse(memory)}
    return Resources(requests=amounts, limits=amounts)


def container(name: str, cpu: str, role: ContainerRole = APP) -> Container:
    """Build a guaranteed container; with no ``cpu`` one that asks for nothing."""
    return Container(name=name, role=role, resources=resources(cpu) if cpu else Resources())


def pod(uid: str, *containers: Container, budget: str = "") -> Pod:
    """Build a pod, with a pod-level budget if one is given."""
    return Pod(uid=uid, name=uid, containers=containers, resources=resources(budget) if budget else None)


def admit(policy: StaticPolicy, state: CpuState, pod: Pod) -> CpuState:
    """Allocate all containers in order, without hints."""
    for item in pod.containers:
        state = policy.allocate(state, pod, item, None)
    return state


def names(pod: Pod) -> dict[str, frozenset[str]]:
    """Name an active pod's containers as ``remove_stale`` wants them."""
    return {pod.uid: frozenset(item.name for item in pod.containers)}
