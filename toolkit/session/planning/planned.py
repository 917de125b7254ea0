"""Scenario + machine -> plan: the thin step that hands a scenario's documents to the allocation model.

A scenario with departures has two plans: with the pods that come first, and with those that are left and come later.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import partial

from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node, start_node
from toolkit.allocation.planner import plan, plan_of
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.kubernetes.kubelet_version import series_of
from toolkit.kubernetes.node_config import NodeConfig, read_settings
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_offered_pod, read_pod, read_submitted_pod
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import Plan, QosClass
from toolkit.model.scenario import Scenario
from toolkit.model.topology import KubeletView, Topology
from toolkit.session.planning.deciders import decided_beside, devices_of, plugins_of, refuse_with_changes
from toolkit.session.planning.machine_amounts import resolve
from toolkit.session.planning.resizing import Answer, plan_resizes
from toolkit.session.planning.restarting import Restarted, plan_restart

_MACHINES: deque[tuple[KubeletView, Machine]] = deque(maxlen=16)
"""The machines that were asked for last: one is asked for with each scenario, its hints are found out once for each
(:mod:`toolkit.allocation.cpu.hints`), and of 128 CPUs it takes longer to make than most plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A scenario on one machine. :param before: the plan until the departures, if there are any.

    :param visited: the plan with the pods that come and leave again, if there are any.
    :param resized: the plan once the resizes are done, if there are any, with the node's ``answers``.
    :param restarted: what became of a kubelet that was started over the state files, if one was.
    :param online: CPUs that are online.
    """

    scenario: Scenario
    topology: Topology
    plan: Plan
    before: Plan | None = None
    visited: Plan | None = None
    resized: Plan | None = None
    answers: tuple[Answer, ...] = ()
    restarted: Restarted | None = None

    @property
    def online(self) -> CpuSet:
        """The machine's online CPUs."""
        return self.topology.online

    @property
    def every_plan(self) -> tuple[Plan, ...]:
        """All plans that there are: of several that know a container the last has the say."""
        plans = (self.before, self.plan, self.visited, self.resized)
        return tuple(plan for plan in plans if plan is not None)

    @property
    def admissions(self) -> tuple[tuple[str, bool, str, str], ...]:
        """What became of every pod: name, admitted, reason, message."""
        pods = {
            pod.name: pod for part in (self.before, self.plan, self.visited) if part is not None for pod in part.pods
        }
        return tuple((pod.name, pod.admitted, pod.reason, pod.message) for pod in pods.values())


def machine_of(topology: Topology) -> Machine:
    """Return the machine as the kubelet's discovery sees it.

    :raises HostUnsupportedError: discovery gives up on this machine, so a kubelet would not start here.
    """
    if topology.kubelet.error is not None:
        raise HostUnsupportedError(f"the kubelet's hardware discovery fails on this machine: {topology.kubelet.error}")
    for view, known in _MACHINES:
        if view is topology.kubelet:
            return known
    machine = Machine.from_topology(topology.kubelet)
    _MACHINES.appendleft((topology.kubelet, machine))
    return machine


def config_of(scenario: Scenario) -> NodeConfig:
    """Return the kubelet's configuration, with the defaults of its release.

    :raises InputError: a field with a wrong type, or no version.
    """
    where = f"scenario {scenario.name}: kubelet"
    config = read_settings(scenario.kubelet, where)
    return config.of_series(series_of(scenario.kubelet_version, where)) if scenario.kubelet_version else config


def read_pods(scenario: Scenario, config: NodeConfig, machine: Machine) -> list[Pod]:
    """Return the scenario's pods on a machine; one that the API refuses stays, with the reason.

    :raises InputError: a manifest is none, or cannot be read; of a user's own pods one without a name only.
    """
    where = f"scenario {scenario.name}"
    manifests = resolve(scenario.pods, config, machine, where)
    read = read_offered_pod if scenario.of_kubelet else read_submitted_pod
    return [read(pod, f"{where}: pod {i}") for i, pod in enumerate(manifests)]


def plan_scenario(scenario: Scenario, topology: Topology, *, quirks: bool = False) -> Plan:
    """Compute what the kubelet would decide for the scenario on this machine, once all pods are there and resized.

    :param quirks: reproduce defects of the real kubelet.
    :raises KubeletPanic: the real kubelet crashes; only with ``quirks``.
    :raises InputError: a pod or the configuration is wrong, or no kubelet would start with it.
    """
    work = plan_all(scenario, topology, quirks=quirks)
    return work.resized or work.visited or work.plan


def plan_all(scenario: Scenario, topology: Topology, *, quirks: bool = False) -> Planned:
    """Compute the plan, and where pods or containers depart also the one of before.

    :raises InputError: as :func:`plan_scenario`. :raises KubeletPanic: likewise.
    """
    where = f"scenario {scenario.name}"
    config = config_of(scenario)
    machine = machine_of(topology)
    refuse_with_changes(scenario, where)
    pods = read_pods(scenario, config, machine)
    start = partial(start_node, config, machine, quirks=quirks, predicate=scenario.predicate)
    if scenario.resizes:
        if scenario.departures:
            raise InputError(where, "resizes and departures", "one of them")
        changed = resolve(scenario.resizes, config, machine, f"{where}: resizes")
        wanted = [read_pod(pod, f"{where}: resize {i}") for i, pod in enumerate(changed)]
        first, after, answers = plan_resizes(scenario, pods, wanted, start())
        return Planned(scenario=scenario, topology=topology, plan=first, resized=after, answers=answers)
    if scenario.kubelet_restart is not None:
        made, restarted = plan_restart(
            scenario,
            pods,
            start(),
            lambda fields: read_settings(fields, f"{where}: kubeletRestart").of_series(config.series),
        )
        return Planned(scenario=scenario, topology=topology, plan=made, restarted=restarted)
    if scenario.leaves:
        without, visited = plan_visit(scenario, pods, start())
        return Planned(scenario=scenario, topology=topology, plan=without, visited=visited)
    if not scenario.departures:
        devices = devices_of(scenario, topology, where)
        made = plan(
            pods,
            config,
            machine,
            devices=devices,
            cpu_plugins=plugins_of(scenario, topology),
            quirks=quirks,
            predicate=scenario.predicate,
        )
        return Planned(scenario=scenario, topology=topology, plan=decided_beside(made, scenario))
    before, after = _with_departures(pods, set(scenario.departures), start())
    return Planned(scenario=scenario, topology=topology, plan=after, before=before)


def _with_departures(pods: list[Pod], departures: set[str], node: Node) -> tuple[Plan, Plan]:
    """Admit pods up to the last that loses something, let go what departs, admit the others."""
    leaving = {name.partition("/")[0] for name in departures}
    count = max(i for i, pod in enumerate(pods) if pod.name in leaving) + 1
    first = [(pod, node.admit(pod), node.cpu_state.default) for pod in pods[:count]]
    before = plan_of(node, first)
    for pod in pods[:count]:
        if pod.name in departures:
            node.remove(pod.uid)
        for container in pod.containers:
            if f"{pod.name}/{container.name}" in departures:
                node.cpu_state = node.cpu_policy.release(node.cpu_state, pod.uid, container.name)
    stay = [entry for entry in first if entry[0].name not in departures]
    later = [(pod, node.admit(pod), node.cpu_state.default) for pod in pods[count:]]
    after = plan_of(node, [*stay, *later])
    known = {pod.name: pod for pod in before.pods}
    rest = []
    for one in after.pods:
        old = known.get(one.name)
        left = tuple(c for c in one.containers if f"{one.name}/{c.name}" not in departures)
        # A pod's cgroup keeps the values with which it was made.
        kept = one if old is None else replace(one, quota_us=old.quota_us, shares=old.shares)
        rest.append(replace(kept, containers=left))
    return before, replace(after, pods=tuple(rest))


def plan_visit(scenario: Scenario, pods: list[Pod], node: Node) -> tuple[Plan, Plan]:
    """Admit those that stay, then the visitors; return the plan without them (before and afterwards), and with them.

    :param node: freshly started.
    :raises InputError: something else changes, too; a visitor whose coming changes weights.
    """
    where = f"scenario {scenario.name}"
    for key in ("departures", "resizes", "arrivals", "restarts", "weights"):
        if getattr(scenario, key):
            raise InputError(where, f"leaves and {key}", "one of them")
    stay = [(pod, node.admit(pod), node.cpu_state.default) for pod in pods if pod.name not in scenario.leaves]
    before = plan_of(node, stay)
    visitors = [node.seen(pod) for pod in pods if pod.name in scenario.leaves]
    for pod in visitors:
        if pod.qos_class is not QosClass.GUARANTEED:
            raise InputError(where, f"leaves: pod {pod.name} is {pod.qos_class.value}", "a Guaranteed pod")
    came = [(pod, node.admit(pod), node.cpu_state.default) for pod in visitors]
    return before, plan_of(node, [*stay, *came])
