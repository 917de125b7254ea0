"""What the CPUs of a node are for: by its kubelet's configuration, by a plan, or by what the kernel isolates."""

from __future__ import annotations

from toolkit.allocation.admission import StartupError
from toolkit.allocation.cpu.static import StaticPolicy
from toolkit.allocation.node import Node
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.model.cpuset import CpuSet
from toolkit.model.isolation import CpuRoles, Finding
from toolkit.model.plan import Plan
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome
from toolkit.session.planning.option_findings import option_findings
from toolkit.session.planning.planned import machine_of


def roles_of_plan(plan: Plan) -> CpuRoles:
    """Return what the CPUs are for once the plan's pods are there."""
    owned = CpuSet.union(c.assigned for pod in plan.pods for c in pod.containers if c.assigned is not None)
    return CpuRoles(exclusive=owned, pool=plan.default_cpus, reserved=plan.reserved_cpus, source="the plan")


def roles_of_kernel(topology: Topology) -> CpuRoles:
    """Return what the kernel's command line suggests, where nothing says which CPUs are to be exclusive."""
    exclusive = topology.isolated | topology.nohz_full
    source = "isolcpus= and nohz_full=; no kubelet was found"
    return CpuRoles(exclusive=exclusive, pool=CpuSet(), reserved=CpuSet(), source=source)


def roles_of_kubelet(config: NodeConfig, topology: Topology, source: str) -> tuple[CpuRoles, tuple[Finding, ...]]:
    """Return what a kubelet makes of the machine, and what of its options does not fit it.

    A CPU that no pod has yet is in the shared pool and can come to be exclusive.

    :raises HostUnsupportedError: no kubelet starts on the machine.
    """
    try:
        node = Node(config, machine_of(topology))
    except StartupError as error:
        finding = Finding(
            id="kubelet-does-not-start",
            outcome=Outcome.FAILED,
            path=source,
            value=error.stage,
            breaks=f"No pod gets anything: {error.message}",
            remedy="Correct the configuration; `pinproof plan --kubelet-config` repeats the kubelet's message.",
        )
        return CpuRoles(exclusive=CpuSet(), pool=CpuSet(), reserved=CpuSet(), source=source), (finding,)
    allocatable = node.cpu_policy.allocatable
    if allocatable is None or not isinstance(node.cpu_policy, StaticPolicy):
        pool = node.machine.cpus
        return CpuRoles(exclusive=CpuSet(), pool=pool, reserved=CpuSet(), source=source), (_no_policy(source),)
    reserved = node.machine.cpus - allocatable
    roles = CpuRoles(exclusive=allocatable, pool=node.cpu_state.default, reserved=reserved, source=source)
    return roles, option_findings(node, node.cpu_policy, roles)


def _no_policy(source: str) -> Finding:
    return Finding(
        id="no-exclusive-cpus",
        outcome=Outcome.SKIPPED,
        path=source,
        value="cpuManagerPolicy none",
        breaks="No container ever owns a CPU.",
        remedy="Set cpuManagerPolicy: static, and reserve CPUs.",
    )
