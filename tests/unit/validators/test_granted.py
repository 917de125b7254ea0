"""CPUs that a node had given to a claim before that was known here: what ran there meanwhile breaks no promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web, cpus, evidence, mask, use
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.evidence import Evidence, Transition
from toolkit.model.evidence.following import Following
from toolkit.model.held import Held, Why
from toolkit.model.result import make_result
from toolkit.model.verdict import Offender, Outcome, Verdict
from toolkit.session.saved import judge_run
from toolkit.session.windows.counters import Counters
from toolkit.store import StoredRun, with_result
from toolkit.timeline.ran import asked
from validators.registry import judge, rule_named

MS = 1_000_000
GRANTED = Held(claim="web", cpus=cpus("2"), why=Why.GRANTED, from_ns=100 * MS, to_ns=300 * MS + 1, certain=False)


def moved(what: str, at_ms: int, after: str, cause: str) -> Transition:
    """The set of ``web`` was changed in a moment."""
    at_ns, sets = at_ms * MS, {"cpus_before": claim_web().cpus, "cpus_after": cpus(after)}
    return Transition(claim="web", what=what, start_at_ns=at_ns, end_at_ns=at_ns, cause=cause, **sets)


def widened(*granted: Held, first_ms: int = 200, more: tuple[Transition, ...] = ()) -> Evidence:
    """``web`` ran on CPU 2 from a moment on, and its set grew by it at 300 ms."""
    base = evidence()
    inside = [row for row in base.cpu_use if row.claim != "web"]
    outside = use("web", 2, switches=3, run_ns=9 * MS, out_of_set_switches=2, out_of_set_ns=5 * MS, samples=1)
    outside = replace(outside, out_of_set_longest_ns=4 * MS, out_of_set_samples=1)
    named = Offender(
        claim="web",
        tid=7,
        comm="hog",
        cpu=2,
        first_at_ns=first_ms * MS,
        total_ns=5 * MS,
        longest_ns=4 * MS,
        switches=2,
    )
    grew = moved("cpus", 300, "0-2", "kubelet")
    return replace(
        base,
        cpu_use=(*inside, use("web", 0), outside),
        offenders=(named,),
        thread_masks=(mask("db", "2-3"), mask("web", "0-2", first_at_ns=first_ms * MS, last_at_ns=299 * MS, epoch=0)),
        transitions=(grew, *more),
        claim_changes=(ClaimChange(at_ns=300 * MS, claim=replace(claim_web(), cpus=cpus("0-2"))),),
        following=Following(source="kubelet", readings=3),
        held=granted,
    )


def verdict(rule: str, found: Evidence) -> Verdict:
    """The verdict about ``web``."""
    claims = claim_set(replace(claim_web(), cpus=cpus("0-1")))
    return next(one for one in judge(claims, found, [rule_named(rule)]) if one.subject == "web")


@pytest.mark.parametrize("rule", ["cpuset-containment", "affinity-mask"])
@pytest.mark.parametrize(
    ("granted", "first_ms", "outcome"),
    [
        ((), 200, Outcome.FAILED),
        ((GRANTED,), 200, Outcome.PASSED),
        ((GRANTED,), 99, Outcome.FAILED),
        ((replace(GRANTED, claim="db"),), 200, Outcome.FAILED),
        ((replace(GRANTED, cpus=cpus("3")),), 200, Outcome.FAILED),
    ],
    ids=["not-granted", "granted", "before", "another's", "another-cpu"],
)
def test_only_what_ran_on_granted_cpus_meanwhile_is_forgiven(
    rule: str, granted: tuple[Held, ...], first_ms: int, outcome: Outcome
) -> None:
    """Not what began before the reading that did not say so yet, nor another claim or CPU."""
    assert verdict(rule, widened(*granted, first_ms=first_ms)).outcome is outcome


def test_the_time_is_a_transitions() -> None:
    """It is reported as such, and no offender is named; the counters agree."""
    found = verdict("cpuset-containment", widened(GRANTED))

    assert (found.measures["out_of_set_ns"], found.measures["transition_ns"]) == (0, 5 * MS)
    assert found.offenders == ()
    counters = Counters()
    counters.add(widened(GRANTED), asked(widened(GRANTED)).rows)
    assert counters.sums["out_of_set", ("web", "2")] == 0


def test_what_no_offender_accounts_for_stays() -> None:
    """A row of the ledger with more outside than the named threads had."""
    found = widened(GRANTED)
    rows = tuple(replace(row, out_of_set_ns=6 * MS) if row.out_of_set_ns else row for row in found.cpu_use)

    assert verdict("cpuset-containment", replace(found, cpu_use=rows)).outcome is Outcome.FAILED


@pytest.mark.parametrize(("last_ms", "forgiven"), [(None, False), (300, True), (301, False)])
def test_a_set_that_loses_the_cpu_again_forgives_what_was_over_by_then(last_ms: int | None, forgiven: bool) -> None:
    """The row may hold what ran after that, too: unless its last moment says that it does not."""
    shrank = Transition(
        claim="web",
        what="cpus",
        start_at_ns=600 * MS,
        end_at_ns=600 * MS,
        cpus_before=cpus("0-2"),
        cpus_after=cpus("0-1"),
        cause="kubelet",
    )
    found = widened(GRANTED, more=(shrank,))
    last_ns = None if last_ms is None else last_ms * MS
    found = replace(found, offenders=tuple(replace(one, last_at_ns=last_ns) for one in found.offenders))

    assert (asked(found).offenders == found.offenders) is not forgiven


def test_an_open_window_of_a_followed_node_counts_nothing_outside() -> None:
    """The next reading may promise it: a counter that went back would be a wrong alarm."""
    counters = Counters()
    counters.add_open(widened())
    closed = Counters()
    closed.add(widened(), asked(widened()).rows)

    assert counters.sums["out_of_set", ("web", "2")] == 0
    assert closed.sums["out_of_set", ("web", "2")] == 5 * MS


@pytest.mark.parametrize(("known_ms", "outcome"), [(201, Outcome.FAILED), (200, Outcome.UNDECIDED)])
@pytest.mark.parametrize("rule", ["cpuset-containment", "affinity-mask"])
def test_what_came_after_the_last_reading_is_in_doubt(rule: str, known_ms: int, outcome: Outcome) -> None:
    """It is not known what was promised by then; where a reading came after it, it is known."""
    found = widened()
    assert found.following is not None
    late = replace(found, following=replace(found.following, known_until_ns=known_ms * MS))

    assert verdict(rule, late).outcome is outcome
    result = make_result(late, judge(claim_set(), late), unknown=asked(late).unknown)
    told = any(
        spot.text.startswith("web ran outside after the node was read last") for spot in result.coverage.blindness
    )
    assert told is (outcome is Outcome.UNDECIDED)


def test_what_is_in_doubt_is_named_in_each_result() -> None:
    """In the one that is saved, and when the run is judged again: the same words, and the rules that they weaken."""
    base = widened()
    assert base.following is not None
    late = replace(base, following=replace(base.following, known_until_ns=200 * MS))
    claims = claim_set(claim_db(), replace(claim_web(), cpus=cpus("0-1")))
    run = StoredRun(path=Path("run"), claims=claims, evidence=late)

    saved, _ = with_result(run, {}, judge(claims, late), unknown=asked(late).unknown)
    again = judge_run(run).result

    assert saved.result is not None
    assert saved.result.coverage == again.coverage
    (spot,) = [one for one in again.coverage.blindness if one.text.startswith("web ran outside after the node")]
    assert "cpuset-containment" in spot.weakens


def test_a_task_without_a_grant_keeps_what_the_row_says_of_the_longest() -> None:
    """One of two tasks that were outside there had none: the longest stay, and samples, may be its own."""
    found = widened(GRANTED)
    other = replace(found.offenders[0], tid=8, first_at_ns=400 * MS, total_ns=0, switches=0)
    (row,) = (
        one
        for one in asked(replace(found, offenders=(*found.offenders, other))).rows
        if one.cpu == 2 and one.claim == "web"
    )

    assert (row.out_longest_ns, row.out_samples) == (4 * MS, 1)


def of_one_name(next_cpus: str | None, *, first_ms: int = 200, gone: bool = True, later: bool = False) -> Evidence:
    """The unit ``web`` stopped and started: its cgroup went at 100 ms and was there again at 150 ms, with CPU 2.

    At 300 ms its source said that it had ended; at 400 ms, or after the window, what its next life is promised.
    """
    known = replace(claim_web(), cpus=cpus(next_cpus or ""))
    ends = [("cgroup-made", 150), ("claim-removed", 300)]
    moments = [("cgroup-gone", 100), *ends] if gone else ends
    base, spoken = widened(first_ms=first_ms), next_cpus is not None and not later
    anew = moved("mask-change", 400, next_cpus or "", "systemd")
    only = tuple(
        replace(row, run_ns=row.out_of_set_ns, switches=row.out_of_set_switches) if row.out_of_set_ns else row
        for row in base.cpu_use
    )
    return replace(
        base,
        cpu_use=base.cpu_use if spoken else only,
        offenders=tuple(replace(one, last_at_ns=(first_ms + 50) * MS) for one in base.offenders),
        transitions=tuple(
            Transition(claim="web", what=what, start_at_ns=at_ms * MS, end_at_ns=at_ms * MS) for what, at_ms in moments
        )
        + ((anew,) if spoken else ()),
        claim_changes=(ClaimChange(at_ns=400 * MS, claim=known),) if spoken else (),
        later=(known,) if next_cpus and later else (),
    )


@pytest.mark.parametrize("rule", ["cpuset-containment", "affinity-mask"])
@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (of_one_name("0-2"), Outcome.PASSED),
        (of_one_name("0-2", later=True), Outcome.PASSED),
        (of_one_name("0-1"), Outcome.FAILED),
        (of_one_name(None), Outcome.FAILED),
        (of_one_name("0-2", gone=False), Outcome.FAILED),
        (of_one_name("0-2", first_ms=90), Outcome.FAILED),
    ],
    ids=["next", "next-after-the-window", "another-set", "no-word", "not-made-again", "before"],
)
def test_a_cgroup_that_was_made_again_has_what_its_next_life_is_promised(
    rule: str, found: Evidence, outcome: Outcome
) -> None:
    """Until its source speaks of it the kernel side judges it by the promise of the life before."""
    assert verdict(rule, found).outcome is outcome
