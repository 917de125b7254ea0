"""What a kubelet that runs decides next: from what its pods hold by its state files, not from an empty node.

What the node decided is planned again beside it, pod by pod in the order in which they came. Where that gives other
CPUs the state holds, and the difference is a finding: pods that have ended held CPUs when others came. Pure.
Source: docs/facts.md K-kubelet-4, K-kubelet-5; :meth:`toolkit.allocation.node.Node.take_over`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolkit.allocation.admission import Admission, StartupError
from toolkit.allocation.checkpoint.format import CheckpointError
from toolkit.allocation.checkpoint.state_files import cpu_state_file
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node, start_node
from toolkit.allocation.planner import plan, plan_of
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import Pod
from toolkit.model.cpuset import CpuSet
from toolkit.model.isolation import Finding
from toolkit.model.plan import Plan, PodPlan
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome
from toolkit.session.planning.planned import config_of, machine_of, read_pods
from toolkit.sources.kubelet.question import Held

STATE = "cpu_manager_state"
KEPT = "The plan has what the state says."


def plan_from_state(scenario: Scenario, held: Held, topology: Topology) -> tuple[Plan, tuple[Finding, ...]]:
    """Return what holds, and what becomes of the pods that come, with what is odd about the state.

    Under another configuration, or on another machine, a kubelet is started over the state and admits its pods again.

    :param scenario: its first pods are those that the node knows, in the order in which they came.
    :raises InputError: a pod or the configuration is wrong, a pod comes twice, or no kubelet starts so over the state.
    """
    config, machine = config_of(scenario), machine_of(topology)
    pods = read_pods(scenario, config, machine)
    known, new = pods[: held.known], pods[held.known :]
    twice = sorted({pod.uid for pod in known} & {pod.uid for pod in new})
    if twice:
        raise InputError("--pods", f"pod {twice[0]!r}, which the node has already", "pods that are new")
    if held.files.cpu is None:
        return plan(pods, config, machine, devices=held.devices), ()
    file = cpu_state_file(held.files.cpu)
    if file.unknown:
        return plan(pods, config, machine, devices=held.devices), (_unread(file.problem),)
    running = [pod for pod in known if pod.uid not in held.refused]
    if not held.own:
        return _over_the_state(config, machine, held, (known, running, new)), ()
    node = start_node(config, machine, devices=held.devices, predicate=True)
    try:
        node.take_over(held.files, running, held.containers, held.owners)
    except CheckpointError as error:
        return plan(pods, config, machine, devices=held.devices), (_unread(str(error)),)
    replayed = {pod.uid: pod for pod in plan(known, config, machine, devices=held.devices).pods}
    late = [pod for pod in running if _owns(replayed[pod.uid]) and not _holds(node, pod)]
    answers = _decided(node, known, new, late, held, replayed)
    made = plan_of(node, [(pod, answers[pod.uid], node.cpu_state.default) for pod in pods])
    found = (*_differences(replayed, made, late, held), *_left(node, pods), *_restart(node, held))
    return made, found


def _over_the_state(
    config: NodeConfig, machine: Machine, held: Held, pods: tuple[Sequence[Pod], Sequence[Pod], Sequence[Pod]]
) -> Plan:
    """Start a kubelet over the node's state. :param pods: those that it knows, those of them that run, and new ones."""
    known, running, new = pods
    try:
        node = Node(
            config,
            machine,
            devices=held.devices,
            predicate=True,
            checkpoints=held.files,
            containers=dict(held.containers),
        )
    except StartupError as error:
        where, expected = "kubelet configuration", "one that starts over the node's state, or --drained"
        raise InputError(where, f"over the state of the node: {error.sentence()}", expected) from None
    node.devices.owners = {key: dict(value) for key, value in held.owners.items()}
    node.active = {pod.uid: pod for pod in running}
    answers = {pod.uid: answer for pod, answer in node.readmit()}
    for pod in known:
        if pod.uid in held.refused:
            reason, message = held.refused[pod.uid]
            answers[pod.uid] = Admission(admitted=False, reason=reason, message=message)
    answers |= {pod.uid: node.admit(pod) for pod in new}
    return plan_of(node, [(pod, answers[pod.uid], node.cpu_state.default) for pod in (*known, *new)])


def _decided(
    node: Node,
    known: Sequence[Pod],
    new: Sequence[Pod],
    late: Sequence[Pod],
    held: Held,
    replayed: Mapping[str, PodPlan],
) -> dict[str, Admission]:
    """Return what becomes of every pod; those that hold nothing yet, and then the new ones, ask the node."""
    answers = {}
    for pod in known:
        reason, message = held.refused.get(pod.uid, ("", ""))
        again = replayed[pod.uid]
        if reason and not again.admitted:
            reason, message = again.reason, again.message
        answers[pod.uid] = Admission(admitted=not reason, reason=reason, message=message)
    for pod in late:
        node.active.pop(pod.uid, None)
    if late or new:
        # What the node's managers do before they allocate.
        node.clean_up()
    for pod in (*late, *new):
        answers[pod.uid] = node.admit(pod)
    return answers


def _owns(pod: PodPlan) -> bool:
    return pod.cpus is not None or any(container.assigned for container in pod.containers)


def _holds(node: Node, pod: Pod) -> bool:
    return pod.uid in node.cpu_state.entries or pod.uid in node.cpu_state.pods


def _differences(replayed: Mapping[str, PodPlan], made: Plan, late: Sequence[Pod], held: Held) -> Iterator[Finding]:
    """Yield where the node decided otherwise than its pods, one after the other, on an empty node."""
    waiting = {pod.uid for pod in late}
    for pod in made.pods:
        again = replayed.get(pod.uid)
        if again is None:
            continue
        if pod.uid in waiting:
            text = "has no CPUs of its own in the state: it was written before the pod came, or the kubelet forgot them"
            yield _finding("state-lacks", pod.name, text, "Its CPUs are planned as of a pod that comes now.")
        elif pod.uid in held.refused and again.admitted:
            text = f"was refused by the node ({held.refused[pod.uid][0]}), and an empty node would have had room for it"
            yield _finding("state-differs", pod.name, text, _history(held))
        elif pod.admitted and not again.admitted:
            text = f"runs, and would be refused on an empty node after the pods before it: {again.reason}"
            yield _finding("state-differs", pod.name, text, _history(held))
        elif pod.admitted and (here := _sets(pod)) != (there := _sets(again)):
            text = (
                f"holds CPUs {_listed(here)}; on an empty node, after the pods before it, it would get {_listed(there)}"
            )
            yield _finding("state-differs", pod.name, text, _history(held))


def _sets(pod: PodPlan) -> dict[str, CpuSet | None]:
    return {"(pod)": pod.cpus} | {container.name: container.assigned for container in pod.containers}


def _listed(sets: Mapping[str, CpuSet | None]) -> str:
    return ", ".join(f"{cpus} ({name})" for name, cpus in sets.items() if cpus) or "none"


def _history(held: Held) -> str:
    """Say why the node may have decided otherwise."""
    if held.ended:
        return f"Pods that have ended held CPUs when others came: {', '.join(held.ended)}. {KEPT}"
    return f"Pods that have ended, of which the node keeps no trace, held CPUs when others came. {KEPT}"


def _left(node: Node, pods: Sequence[Pod]) -> Iterator[Finding]:
    """Yield what the state gives to pods that the node does not list."""
    listed = {pod.uid for pod in pods}
    state = node.cpu_state
    for uid in sorted((state.entries.keys() | state.pods.keys()) - listed):
        cpus = CpuSet.union((*state.entries.get(uid, {}).values(), state.pods.get(uid, CpuSet())))
        text = f"holds CPUs {cpus}, and the node lists no such pod"
        yield _finding("state-leftover", f"pod uid {uid}", text, "They are given back before the next pod is admitted.")


def _restart(node: Node, held: Held) -> Iterator[Finding]:
    try:
        Node(node.config, node.machine, checkpoints=held.files, containers=dict(held.containers))
    except StartupError as error:
        text = f"a kubelet that is started over it does not start: {error.sentence()}"
        remedy = "Drain the node and remove the file before the kubelet is restarted."
        yield Finding(
            id="state-no-restart",
            outcome=Outcome.FAILED,
            path=STATE,
            value=text,
            breaks="The next restart.",
            remedy=remedy,
        )


def _unread(problem: str) -> Finding:
    return Finding(
        id="state-not-read",
        outcome=Outcome.UNDECIDED,
        path=STATE,
        value=problem,
        breaks="What pods hold is not known: the plan begins with an empty node.",
        remedy="Look at the file; pinproof judge --capture says more.",
    )


def _finding(name: str, pod: str, value: str, breaks: str) -> Finding:
    return Finding(
        id=name,
        outcome=Outcome.SKIPPED,
        path=pod,
        value=value,
        breaks=breaks,
        remedy="Nothing: that is what a node that lives looks like.",
    )
