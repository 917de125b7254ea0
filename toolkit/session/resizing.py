"""In-place resizes of a scenario: what the node answers, and how the machine follows while it is observed.

Containers that lose CPUs are written first, so that no CPU has two owners at any time. A kubelet that updates pod by
pod does not take care of that (``docs/failures.md`` F65); ``resize-ignored`` is what it then looks like. Where a quota
changes, it is written between two windows (:func:`parted`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolkit.allocation.node import Node
from toolkit.allocation.planner import plan_of
from toolkit.allocation.resize import ResizeStatus, resize
from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.plan import ContainerPlan, Plan, PodPlan
from toolkit.model.pod import Pod
from toolkit.model.scenario import Scenario
from toolkit.session.from_plan import Stage, claim_name
from toolkit.session.observe import Observation
from toolkit.session.resize_writes import changes_bandwidth, with_bandwidth, write_limits
from toolkit.session.tree import parent_claims


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


BEFORE = "before the resize"
"""The stage that judges the quotas of before: a quota is judged over a whole window, so it changes between two."""


def parted(scenario: Scenario, stages: tuple[Stage, ...], after: Plan | None) -> tuple[Stage, ...]:
    """Return the stages with one more before the last, where a resize changes a quota.

    Who arrives late does so in the last, which has the quotas of afterwards from its beginning.
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


def carry_out(
    live: LiveSandbox, opened: Observation, claims: ClaimSet, before: Plan, after: Plan, ignored: str = ""
) -> None:
    """Let the machine follow: shares and memory limits, then cpusets, who loses CPUs first; then write down what is
    promised. Quotas have been written before the window was opened.

    :param claims: what is promised now. :param ignored: a claim whose change of CPUs is announced, but not written.
    """
    write_limits(live, before, after)
    then = {claim.name: claim for claim in resized_claims(claims, after).claims}
    promised = {name: claim.cpus for name, claim in then.items()}
    moves = [(claim, cpus) for claim in claims.claims if (cpus := promised[claim.name]) and cpus != claim.cpus]
    for claim, cpus in sorted(moves, key=lambda move: len(move[1]) - len(move[0].cpus or ())):
        with opened.observer.changing(claim.name, cpus):
            if claim.name != ignored:
                live.set_cpus(claim.name, cpus)
        opened.promise(then.pop(claim.name))
    for claim in claims.claims:
        if claim.name in then and then[claim.name] != claim:
            opened.promise(then[claim.name])
