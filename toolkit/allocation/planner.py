"""Pods, a node's configuration and a machine to a plan: what the kubelet would decide, with the reason for each value.

Pure: the same input gives the same plan. Source: docs/principles.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolkit.allocation.admission import Admission
from toolkit.allocation.cgroup_values import container_values, pod_values
from toolkit.allocation.cpu.manager import StaticPolicy
from toolkit.allocation.device.manager import Device
from toolkit.allocation.explain_plan import container_reasons, pod_reasons, refusal
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node, start_node
from toolkit.allocation.plugins.policy import PluginPolicy
from toolkit.allocation.plugins.registry import load_plugin
from toolkit.allocation.plugins.static import StaticPlugin
from toolkit.allocation.promised import promised
from toolkit.allocation.qos import container_quota_disabled, pod_quota_disabled
from toolkit.errors import InputError
from toolkit.kubernetes.go_text import parse_cpu_list
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import CPU, HUGEPAGES_PREFIX, Container, Pod, effective_requests
from toolkit.kubernetes.quantity import ZERO, Quantity
from toolkit.kubernetes.releases import INIT_CONTAINERS_COUNT
from toolkit.model.claims import HugepageLimit, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, Plan, PodPlan


def plan(
    pods: Sequence[Pod],
    config: NodeConfig,
    machine: Machine,
    *,
    devices: Iterable[Device] = (),
    cpu_plugins: Mapping[str, Mapping[str, Any]] | None = None,
    quirks: bool = False,
    predicate: bool = True,
) -> Plan:
    """Let the pods arrive one after the other on a freshly started node; the plan has them in this order.

    The CPU sets of containers in the shared pool are those after the last pod: a running kubelet gets there within one
    reconcile period.

    :param devices: devices of the node. :param quirks: reproduce defects of the real components.
    :param predicate: refuse pods that find too little room beside the others, too; else the managers decide alone.
    :param cpu_plugins: plugin names and their settings, asked in this order before the static policy chooses; they may
        have pods that wait served in another order.
    :raises InputError: a kubelet would not start with this configuration on this machine, a pod is given twice, or a
        plugin is unknown.
    """
    node = start_node(config, machine, devices=devices, quirks=quirks, predicate=predicate)
    if cpu_plugins:
        _plug_in(node, cpu_plugins, quirks=quirks)
    given = Counter(pod.uid for pod in pods)
    twice = next((pod for pod in pods if given[pod.uid] > 1), None)
    if twice is not None:
        raise InputError(f"pod {twice.name}", f"uid {twice.uid!r} twice", "every pod once")
    policy = node.cpu_policy
    waiting = policy.sorted([node.seen(pod) for pod in pods]) if isinstance(policy, PluginPolicy) else pods
    known = {pod.uid: pod for pod in pods}
    answers = {
        uid: (known[uid], node.admit(known[uid]), node.cpu_state.default) for uid in (one.uid for one in waiting)
    }
    made = plan_of(node, [answers[pod.uid] for pod in pods])
    short = (text for pod, answer, _ in answers.values() if answer.admitted for text in _short(node, pod))
    return replace(made, warnings=(*made.warnings, *short))


def _plug_in(node: Node, names: Mapping[str, Mapping[str, Any]], *, quirks: bool) -> None:
    if not isinstance(node.cpu_policy, StaticPolicy):
        raise InputError("CPU plugins", f"cpuManagerPolicy {node.cpu_policy.name}", "cpuManagerPolicy static")
    plugins = [load_plugin(name, node.machine, settings) for name, settings in names.items()]
    node.cpu_policy = PluginPolicy.around(node.cpu_policy, [*plugins, StaticPlugin(quirks=quirks)])


def plan_of(node: Node, results: Sequence[tuple[Pod, Admission, CpuSet]]) -> Plan:
    """Write down what a node decided. :param results: pods in order, with the shared pool after each."""
    named = zip(_distinct([pod for pod, _, _ in results]), results, strict=True)
    results = [(pod, admission, pool) for pod, (_, admission, pool) in named]
    policy, config = node.cpu_policy, node.config
    static = isinstance(policy, StaticPolicy)
    reserved = policy.reserved if isinstance(policy, StaticPolicy) else parse_cpu_list(config.reserved_system_cpus)
    texts = node.checkpoints()
    states = {"cpu_manager_state": texts.cpu or "", "memory_manager_state": texts.memory or ""}
    return Plan(
        cpu_manager_policy=policy.name,
        reserved_cpus=reserved,
        strict_reservation=isinstance(policy, StaticPolicy) and policy.strict_reservation,
        default_cpus=node.cpu_state.default if static else node.machine.cpus,
        pods=tuple(_pod_plan(node, pod, admission) for pod, admission, _ in results),
        warnings=tuple(_warnings(node, results)),
        states=states,
    )


def _distinct(pods: Sequence[Pod]) -> Iterator[Pod]:
    """Give pods that share a name their namespace before it, and their UID behind it where both are the same."""
    names = Counter(pod.name for pod in pods)
    full = Counter((pod.namespace, pod.name) for pod in pods)
    for pod in pods:
        space = f"{pod.namespace}/" if names[pod.name] > 1 else ""
        uid = f" ({pod.uid})" if full[pod.namespace, pod.name] > 1 else ""
        yield replace(pod, name=f"{space}{pod.name}{uid}")


def _warnings(node: Node, results: Sequence[tuple[Pod, Admission, CpuSet]]) -> list[str]:
    found = []
    if isinstance(node.cpu_policy, StaticPolicy) and not node.cpu_state.default:
        found.append(
            "the shared pool is empty: containers without exclusive CPUs get no CPU set at all, and a kubelet "
            "refuses to restart over this state"
        )
    for pod, admission, _ in results:
        if not admission.admitted and pod.uid in node.cpu_state.pods:
            found.append(f"pod {pod.name} was refused but its CPUs {node.cpu_state.pods[pod.uid]} are never given back")
    if isinstance(node.cpu_policy, StaticPolicy):
        found += [f"kubelet defect: {defect}" for defect in node.cpu_policy.defects(node.cpu_state)]
    return found


def _short(node: Node, pod: Pod) -> Iterator[str]:
    """Name the containers that were given fewer CPUs than they ask for: cores with unequal threads make that possible.

    Only of pods as they were admitted: a resize changes what is asked for, and no CPUs.
    """
    policy = node.cpu_policy
    if not isinstance(policy, StaticPolicy):
        return
    for container in pod.containers:
        cpus, asked = node.cpu_state.assigned(pod.uid, container.name), policy.requested(pod, container)
        if cpus is not None and len(cpus) < asked:
            text = f"container {pod.name}/{container.name} asks for {asked} CPUs and gets {len(cpus)}: {cpus}"
            yield f"kubelet defect: {text}"


def _pod_plan(node: Node, pod: Pod, admission: Admission) -> PodPlan:
    seen = node.seen(pod)
    if not admission.admitted:
        return PodPlan(
            uid=pod.uid,
            name=pod.name,
            qos_class=seen.qos_class,
            admitted=False,
            reason=admission.reason,
            message=admission.message,
            reasons=(refusal(node, pod, admission),),
        )
    isolations = {container.name: node.isolation(pod, container) for container in pod.containers}
    disabled = pod_quota_disabled(pod, isolations.values(), node.gates)
    counts = INIT_CONTAINERS_COUNT.of(node.config.series) is not False
    values = pod_values(pod, node.config, quota_disabled=disabled, init_counts=counts)
    return PodPlan(
        uid=pod.uid,
        name=pod.name,
        qos_class=seen.qos_class,
        admitted=True,
        cpus=node.cpu_state.pods.get(pod.uid),
        quota_us=values.quota_us,
        period_us=values.period_us,
        shares=values.shares,
        cpu_request_milli=effective_requests(seen).get(CPU, ZERO).milli,
        memory_limit_bytes=values.memory_bytes,
        containers=tuple(_container_plan(node, pod, c, isolations[c.name]) for c in pod.containers),
        reasons=tuple(pod_reasons(node, seen, values, quota_disabled=disabled)),
    )


def _container_plan(node: Node, pod: Pod, container: Container, isolation: Isolation) -> ContainerPlan:
    disabled = container_quota_disabled(isolation, node.gates)
    values = container_values(pod, container, node.config, quota_disabled=disabled)
    mems = node.memory.numa_nodes(pod.uid, container.name)
    place = promised(node, pod, container)
    return ContainerPlan(
        name=container.name,
        role=container.role,
        cpus=node.cpu_state.cpus_of(pod.uid, container.name),
        assigned=node.cpu_state.assigned(pod.uid, container.name),
        isolation=isolation,
        mems=CpuSet.of(mems) if mems else None,
        quota_us=values.quota_us,
        period_us=values.period_us,
        shares=values.shares,
        memory_limit_bytes=values.memory_bytes,
        hugepages=hugepage_limits(container),
        alignments=place.alignments,
        preferences=place.preferences,
        max_numa_nodes=place.max_numa_nodes,
        devices=place.devices,
        reasons=tuple(container_reasons(node, pod, container, isolation, values)),
    )


def hugepage_limits(container: Container) -> tuple[HugepageLimit, ...]:
    """Return the limits of the huge pages that a container asks for."""
    return tuple(
        HugepageLimit(page_bytes=Quantity.parse(name.removeprefix(HUGEPAGES_PREFIX)).value, limit_bytes=limit.value)
        for name, limit in sorted(container.resources.limits.items())
        if name.startswith(HUGEPAGES_PREFIX)
    )
