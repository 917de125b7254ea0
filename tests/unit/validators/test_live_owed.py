"""Rule ``layers-agree`` on a followed node: CPUs that a container has still, and that were promised to others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import SECOND, claim_set, evidence, use
from tests.unit.validators.live_layers_builder import BE, SAME, Word, judged, node
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.held import FOREVER_NS, Held, Why
from toolkit.model.verdict import Outcome
from validators.registry import judge

NEW = replace(BE, name="ex42/main", pod="ex42", cgroup="/new", cpus=CpuSet.parse("3"), isolation=Isolation.CONTAINER)
"""The pod that the kubelet gave CPU 3."""


def owed(since_s: int, due_s: int, until_s: int) -> Held:
    """CPU 3 had to be given back, and was."""
    times = {"from_ns": since_s * SECOND, "due_ns": due_s * SECOND, "to_ns": until_s * SECOND}
    return Held(claim=BE.name, cpus=CpuSet.parse("3"), why=Why.OWED, **times)


@pytest.mark.parametrize(("for_s", "outcome"), [(14, Outcome.PASSED), (16, Outcome.FAILED)])
def test_overlap_with_new_owners_is_measured_and_bounded(for_s: int, outcome: Outcome) -> None:
    """CPU 3 was given back after that time."""
    back = owed(0, 15, for_s)
    verdict = judged(node(SAME, SAME, SAME, held=(back,)))

    assert verdict.outcome is outcome
    assert (verdict.measures["overlap_cpus"], verdict.measures["overlap_ms"]) == ("3", for_s * 1000)


def test_cpus_of_two_owners_are_failed_without_a_bound() -> None:
    """For 3 s, and it is said whose doing that is: the kubelet's, not the old owner's, which is just ending."""
    back = replace(owed(1, 1, 4), why=Why.TAKEN)
    verdict = judged(node(SAME, SAME, SAME, held=(back,)), NEW)
    unknown = judged(node(SAME, SAME, SAME, held=(replace(back, to_ns=FOREVER_NS),)))

    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason.endswith("; it is ending; the kubelet gave its CPU 3 to ex42/main 3.0 s before")
    assert unknown.outcome is Outcome.FAILED
    still = (
        "; it is ending; the kubelet gave its CPU 3 to another pod 29.0 s before this window ended, and it still runs"
    )
    assert unknown.reason.endswith(still)


def test_tasks_on_cpus_that_were_given_away_name_what_gave_them() -> None:
    """The new owner's verdict and the old owner's name the kubelet; one that was given nothing early does not."""
    row = replace(use("web", 3, run_ns=SECOND), out_of_set_switches=3, out_of_set_ns=SECOND)
    early = Held(claim="web", cpus=CpuSet.parse("3"), why=Why.TAKEN, from_ns=SECOND, due_ns=SECOND, to_ns=2 * SECOND)
    base = evidence()
    seen = replace(base, cpu_use=(*base.cpu_use, row))

    def reasons(found: Evidence) -> list[str]:
        verdicts = judge(claim_set(), found)
        about = {("exclusive-cpus", "db"), ("cpuset-containment", "web")}
        return [one.reason for one in verdicts if (one.rule, one.subject) in about and one.outcome is Outcome.FAILED]

    said = "it is ending; the kubelet gave its CPU 3 to db 1.0 s before"
    assert [said in reason for reason in reasons(replace(seen, held=(early,)))] == [True, True]
    assert [said in reason for reason in reasons(replace(seen, held=(replace(early, why=Why.OWED),)))] == [False, False]


@pytest.mark.parametrize(
    ("given_s", "unread_s", "outcome"),
    [(9, 5, Outcome.PASSED), (16, 0.5, Outcome.FAILED), (16, 1.5, Outcome.UNDECIDED), (40, 5, Outcome.FAILED)],
    ids=["in time", "late", "read too seldom", "not at all"],
)
def test_the_cgroup_says_when_cpus_were_given_back(given_s: float, unread_s: float, outcome: Outcome) -> None:
    """The runtime was asked again after 20 s, the bound is 15 s: what it says then may have been so for long."""
    back = owed(0, 15, 20)
    read = [(at_s, cpus) for at_s, cpus in ((0.0, "0-3"), (given_s, "0-2")) if at_s < 30]
    asked: list[Word] = [(0, "0-3"), (19, "0-3"), (20, "0-2"), (29, "0-2")] if given_s > 15 else [(19.5, "0-2")]
    seen = node([(0, "0-2"), (29, "0-2")], asked[-2:] if given_s < 30 else [(0, "0-3")], read, held=(back,))
    verdict = judged(replace(seen, coverage=replace(seen.coverage, file_gap_ns=round(unread_s * SECOND))))

    said = "it has CPUs 3, which were promised away, for 20.0 s (bound 15.0 s)"
    assert (verdict.outcome, said in verdict.reason) == (outcome, outcome is not Outcome.PASSED), verdict.reason


@pytest.mark.parametrize(
    ("since_s", "until_s", "certain", "outcome"),
    [
        (16, None, True, Outcome.PASSED),
        (14, None, True, Outcome.UNDECIDED),
        (-14, None, True, Outcome.UNDECIDED),
        (-16, None, True, Outcome.FAILED),
        (-300, None, False, Outcome.UNDECIDED),
        (-300, 1, True, Outcome.FAILED),
    ],
    ids=["lag", "may be ending", "as long as it may", "beyond", "not said", "until a moment ago"],
)
def test_an_owner_without_an_entry_does_not_grow_late(
    since_s: float, until_s: float | None, outcome: Outcome, *, certain: bool
) -> None:
    """It asks for two CPUs, has CPUs 2-3, and the file lost it (F31). The bound is 15 s, a pod ends within 30 s."""
    row = Held(
        claim=BE.name,
        asks=2,
        cpus=CpuSet.parse("2-3"),
        why=Why.FORGOTTEN,
        certain=certain,
        from_ns=round(since_s * SECOND),
        to_ns=FOREVER_NS if until_s is None else round(until_s * SECOND),
    )
    own: list[Word] = [(-320, "2-3"), (29, "2-3")]
    verdict = judged(node([(-300, "0-3"), (29, "0-3")], own, [(0, "2-3")], "2-3", held=(row,)))

    assert verdict.outcome is outcome, verdict.reason
    assert "model and checkpoint differ since" in verdict.reason
    assert "2 CPUs of its own requested, none assigned; it has CPUs 2-3" in verdict.reason
