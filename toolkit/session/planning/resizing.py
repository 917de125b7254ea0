"""In-place resizes of a scenario: what the node answers, what is promised then, and in which stages that is judged.

A CFS quota is judged over a whole window: where one changes, it is written between two (:func:`parted`). What is
written on the machine, and when, is :mod:`toolkit.session.engine.resize_writes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from toolkit.allocation.node import Node
from toolkit.allocation.planner import plan_of
from toolkit.allocation.resize import ResizeStatus, resize
from toolkit.errors import InputError
from toolkit.kubernetes.pod import Pod
from toolkit.model.claims import ClaimSet
from toolkit.model.plan import ContainerPlan, Plan, PodPlan
from toolkit.model.scenario import Scenario
from toolkit.session.planning.from_plan import Stage, claim_name
from toolkit.session.planning.tree import parent_claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the node says to one resize. :param text: status and message, ``Infeasible: …``."""

    pod: str
    done: bool
    text: str


def plan_resizes(
    scenario: Scenario, pods: list[Pod], wanted: list[Pod], node: Node
) -> tuple[Plan, Plan, tuple[Answer, ...]]:
    """Admit the pods, then ask for the resizes one after the other; return the plan before, after, and the answers.

    :param node: freshly started.
    :raises InputError: parts of CPU time are promised, which change.
    """
    if scenario.weights:
        raise InputError(f"scenario {scenario.name}", "weights with resizes", "one of them: parts of CPU time change")
    results = [(pod, node.admit(pod), node.cpu_state.default) for pod in pods]
    before = plan_of(node, results)
    created = {
        pod.uid: {
            container.name: cpus
            for container in pod.containers
            if (cpus := node.cpu_state.assigned(pod.uid, container.name))
        }
        for pod in pods
    }
    answers = []
    for pod in wanted:
        answer = resize(node, pod, created.get(pod.uid), behaviour=scenario.resize_behaviour)
        done = answer.status is ResizeStatus.DONE
        text = f"{answer.status}: {answer.message}" if answer.message else str(answer.status)
        answers.append(Answer(pod=pod.name, done=done, text=text))
        if done:
            results = [(pod, one, pool) if old.uid == pod.uid else (old, one, pool) for old, one, pool in results]
    after = plan_of(node, results)
    return before, after, tuple(answers)


def admitted(before: Plan, after: Plan) -> Iterator[tuple[PodPlan, PodPlan]]:
    """Return the pods that are admitted afterwards, as they were and as they are then."""
    return ((old, new) for old, new in zip(before.pods, after.pods, strict=True) if new.admitted)


def changes_bandwidth(before: Plan, after: Plan) -> bool:
    """Return whether a CFS quota is another one afterwards, of a pod or of a container."""
    return any(
        old.quota_us != new.quota_us
        or any(was.quota_us != now.quota_us for was, now in zip(old.containers, new.containers, strict=True))
        for old, new in admitted(before, after)
    )


def with_bandwidth(before: Plan, after: Plan) -> Plan:
    """Return the plan of before with the quotas of after: all else follows while a window is open."""
    pods = []
    for old, new in zip(before.pods, after.pods, strict=True):
        parts = tuple(
            replace(was, quota_us=now.quota_us, period_us=now.period_us)
            for was, now in zip(old.containers, new.containers, strict=True)
        )
        pods.append(replace(old, quota_us=new.quota_us, period_us=new.period_us, containers=parts))
    return replace(before, pods=tuple(pods))


BEFORE = "before the resize"
"""The stage that judges the quotas of before: a quota is judged over a whole window, so it changes between two."""


def parted(scenario: Scenario, stages: tuple[Stage, ...], after: Plan | None) -> tuple[Stage, ...]:
    """Return the stages with one more before the last, where a resize changes a quota.

    What arrives late does so in the last, which has the quotas of afterwards from its beginning.
    """
    if after is None or not changes_bandwidth(stages[-1].plan, after):
        return stages
    last = stages[-1]
    there = frozenset(name for name in last.containers if name.partition("/")[0] not in scenario.arrivals)
    first = replace(last, name=BEFORE, containers=there)
    return (*stages[:-1], first, replace(last, plan=with_bandwidth(last.plan, after)))


def containers(plan: Plan) -> dict[str, tuple[PodPlan, ContainerPlan]]:
    """Return the admitted containers by claim name."""
    return {claim_name(pod, one): (pod, one) for pod in plan.pods if pod.admitted for one in pod.containers}


def resized_claims(claims: ClaimSet, after: Plan) -> ClaimSet:
    """Return what is promised once the resizes are done: how much a container asks for is not known any more."""
    new = containers(after)
    parents = {claim.name: claim for claim in parent_claims(after, claims.pods_root or "")}
    pool = after.default_cpus or None
    changed = []
    for claim in claims.claims:
        if not claim.kind.carries_tasks:
            changed.append(parents.get(claim.name, claim))
            continue
        cpus = (new[claim.name][1].cpus or None) if claim.name in new else pool
        if cpus != claim.cpus:
            claim = replace(claim, cpus=cpus, demand_cpus=None)
        if claim.name in new:
            container = new[claim.name][1]
            claim = replace(
                claim,
                alignments=container.alignments,
                preferences=container.preferences,
                max_numa_nodes=container.max_numa_nodes,
                shares=container.shares,
                memory_bytes=container.memory_limit_bytes,
            )
        changed.append(claim)
    return replace(claims, claims=tuple(changed))
