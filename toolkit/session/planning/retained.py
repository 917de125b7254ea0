"""What owns CPUs keeps them: the plan before a change compared with the one after it. Pure.

No scenario needs to say so; it follows from what a kubelet is. A restarted one reads its state files and gives every
container that is in them what stands there; the static policy never moves an exclusive CPU, whatever comes or leaves;
v1.36 moves none at a resize, and KEP-5554 plans to add CPUs to those that are there, or to take some of them.
Source: Kubernetes v1.36.2 cpumanager/policy_static.go (Allocate); KEP-5554; ``docs/facts.md`` K-kubelet-5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import Plan
from toolkit.model.scenario import ResizeBehaviour, Scenario
from toolkit.session.planning.from_plan import claim_name, running
from toolkit.session.planning.planned import Planned


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What was found about a container's CPUs. :param wrong: in one line; empty: nothing is."""

    subject: str
    found: str
    wrong: str = ""


def retained(scenario: Scenario, work: Planned) -> Iterator[Compared]:
    """Compare the CPUs of each owner that outlives a change with those of before."""
    for what, before, after, sharers_too in _changes(work):
        new = {claim_name(pod, one): one.cpus for pod, one in running(after)}
        for pod, one in running(before):
            name = claim_name(pod, one)
            if name not in new or (one.isolation is Isolation.HOST and not sharers_too):
                continue
            resized = what == "resize" and pod.name in _moving(scenario, work)
            fits = _grown_or_shrunk(one.cpus, new[name]) if resized else one.cpus == new[name]
            yield Compared(
                subject=f"{name} ({what})",
                found=f"has CPUs {new[name]}, and had {one.cpus}",
                wrong="" if fits else f"{name} had CPUs {one.cpus} and has {new[name]}; expected {_rule(resized)}",
            )


def _changes(work: Planned) -> Iterator[tuple[str, Plan, Plan, bool]]:
    """Yield each change with what held before and after, and whether those that share CPUs keep theirs, too."""
    if work.before is not None:
        yield "departures", work.before, work.plan, False
    if work.visited is not None:
        yield "leaves", work.plan, work.visited, False
    if work.resized is not None:
        yield "resize", work.plan, work.resized, False
    if work.restarted is not None:
        # Where no kubelet starts nothing touches what runs.
        yield "restart", work.restarted.before, work.plan, bool(work.restarted.refusal)


def _moving(scenario: Scenario, work: Planned) -> set[str]:
    """Return the pods whose exclusive CPUs a resize may change."""
    if scenario.resize_behaviour is not ResizeBehaviour.KEP_5554:
        return set()
    return {answer.pod for answer in work.answers if answer.done}


def _grown_or_shrunk(old: CpuSet, new: CpuSet) -> bool:
    return old <= new or (bool(new) and new <= old)


def _rule(resized: bool) -> str:
    return "CPUs added to those, or some of those" if resized else "the same"
