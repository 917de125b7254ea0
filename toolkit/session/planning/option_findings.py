"""A kubelet's options against its machine: which change nothing there, and reserved CPUs that others use, too. Pure.

Source: Kubernetes documentation "Static policy options", "Control Topology Management Policies on a node".
"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.allocation.cpu.static import StaticPolicy
from toolkit.allocation.node import Node
from toolkit.allocation.topology.manager import NONE
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.isolation import CpuRoles, Finding
from toolkit.model.verdict import Outcome

_CPU_OPTIONS = "cpuManagerPolicyOptions"
_TOPOLOGY_OPTIONS = "topologyManagerPolicyOptions"


def option_findings(node: Node, policy: StaticPolicy, roles: CpuRoles) -> tuple[Finding, ...]:
    """Return the findings. :param policy: the node's. :param roles: of its CPUs, before any pod."""
    return (*_without_effect(node, policy), *_reserved(node, roles))


def _without_effect(node: Node, policy: StaticPolicy) -> Iterator[Finding]:
    unaligned = node.topology.policy == NONE
    for option in policy.options.on:
        what, count = ("", 0) if option.matters is None else option.matters(node.machine)
        if count == 1:
            yield _idle(_CPU_OPTIONS, option.name, f"number of {what} is 1")
        elif unaligned and option.only_hints:
            yield _idle(_CPU_OPTIONS, option.name, "the Topology Manager's policy is none, and asks for no hint")
    if unaligned:
        for name in sorted(node.config.topology_manager_policy_options):
            yield _idle(_TOPOLOGY_OPTIONS, name, "the Topology Manager's policy is none, and reads no option")
    for topology_option, _ in node.topology.options.on:
        why = topology_option.idle(node.machine)
        if why:
            yield _idle(_TOPOLOGY_OPTIONS, topology_option.name, why)


def _idle(path: str, name: str, why: str) -> Finding:
    return Finding(
        id="option-without-effect",
        outcome=Outcome.SKIPPED,
        path=path,
        value=name,
        breaks=f"The option changes nothing here: {why}.",
        remedy="None is needed; expect nothing from it on this machine.",
    )


def _reserved(node: Node, roles: CpuRoles) -> Iterator[Finding]:
    cores = node.machine.core_masks.values()
    split = [mask for mask in cores if mask & roles.reserved.mask and mask & ~roles.reserved.mask]
    if split:
        siblings = CpuSet(sum(split)) - roles.reserved
        whole = roles.reserved | siblings
        yield Finding(
            id="reserved-half-core",
            outcome=Outcome.UNDECIDED,
            path="reservedSystemCPUs",
            value=str(roles.reserved),
            breaks=f"Reserved CPUs share a core with {cpus_text(siblings)}: system tasks slow pods down there.",
            remedy=f"Reserve whole cores (reservedSystemCPUs: {whole}).",
        )
    if roles.pool & roles.reserved:
        yield Finding(
            id="reserved-cpus-shared",
            outcome=Outcome.UNDECIDED,
            path=f"{_CPU_OPTIONS} strict-cpu-reservation",
            value=node.config.cpu_manager_policy_options.get("strict-cpu-reservation", "not set"),
            breaks=f"Pods of the shared pool run on the reserved {cpus_text(roles.pool & roles.reserved)}.",
            remedy='Set strict-cpu-reservation: "true" to keep them for the system.',
        )
