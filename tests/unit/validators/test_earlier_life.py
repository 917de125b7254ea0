"""A container that restarts, or ends, within a window: the life before is judged as the present one is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import SECOND, claim_set, mask
from tests.unit.validators.live_layers_builder import BE, CGROUP, PERIOD_S, Word, granted, node, said
from toolkit.model.claim_changes import ClaimChange, in_force
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, Evidence, Transition
from toolkit.model.evidence.following import EndedLife
from toolkit.model.held import Held, Why
from toolkit.model.layers import Layer
from toolkit.model.verdict import Outcome, Verdict
from validators.rules import applied, layers_agree

ANEW = replace(BE, cgroup="/kubepods/besteffort/podbe/anew")
END_S = 20


def moment(what: str, at_s: float, cause: str = "toolkit") -> Transition:
    at_ns = round(at_s * SECOND)
    return Transition(claim=BE.name, what=what, start_at_ns=at_ns, end_at_ns=at_ns, cause=cause)


def restarted(state: list[Word], asked: list[Word], cgroup: list[Word], **changes: object) -> Evidence:
    """The container of a window of 30 s began anew after 20 s, in another cgroup, with CPUs 0-2.

    :param state, asked, cgroup: of its life until then.
    """
    base = node([(21, "0-2"), (29, "0-2")], [(21, "0-2"), (29, "0-2")], [(21, "0-2")])
    own = [replace(row, cgroup=ANEW.cgroup) for row in (*base.files_before, *base.files_after)]
    rows = [granted(at_s, cpus) for at_s, cpus in cgroup]
    layers = (*said(Layer.CHECKPOINT, *state), *said(Layer.RUNTIME, *asked))
    value = replace(
        base,
        files_before=(rows[0], own[0]),
        files_during=tuple(rows[1:]),
        files_after=(replace(rows[-1], at_ns=round(19.5 * SECOND)), own[1]),
        ended_lives=(EndedLife(claim=BE.name, cgroup=CGROUP, until_ns=round(20.1 * SECOND), layers=layers),),
        transitions=(
            moment("cgroup-gone", END_S, "host"),
            moment("claim-removed", END_S + 0.1),
            moment("claim-added", END_S + 0.3),
        ),
        claim_changes=(ClaimChange(at_ns=round(20.3 * SECOND), claim=replace(ANEW, cpus=CpuSet.parse("0-2"))),),
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def judged(seen: Evidence, rule: object = layers_agree) -> Verdict:
    claims = in_force(claim_set(BE, reconcile_period_s=float(PERIOD_S)), seen.claim_changes)
    (verdict,) = rule.RULE.check(claims, seen)  # type: ignore[attr-defined]
    return verdict  # type: ignore[no-any-return]


SHRUNK: list[Word] = [(0, "0-3"), (4, "0-3"), (6, "0-2"), (19, "0-2")]


def test_a_pool_that_shrinks_before_a_restart_leaves_no_doubt() -> None:
    """The state file said so after 5 s, the kubelet wrote it after 8 s."""
    verdict = judged(restarted(SHRUNK, [(0, "0-3"), (7, "0-3"), (8.2, "0-2"), (19, "0-2")], [(0, "0-3"), (8, "0-2")]))

    assert verdict.outcome is Outcome.PASSED, verdict.reason
    assert verdict.reason.startswith("checkpoint, cri, cgroup, observed agree; in its life until 20.0 s, in /kubepods")


def test_a_drift_before_a_restart_fails() -> None:
    """Another program wrote 0-7 after 8 s; what was asked for stayed."""
    same: list[Word] = [(0, "0-3"), (19, "0-3")]
    verdict = judged(restarted(same, same, [(0, "0-3"), (8, "0-7")]))

    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason == (
        f"in its life until 20.0 s, in {CGROUP}: cri and cgroup differ from 8.0 s on: CPUs 0-3 asked for against 0-7: "
        "drift, no bound"
    )


def test_a_shrink_that_never_came_before_a_restart_fails_beyond_the_bound() -> None:
    """The state file took CPU 3 away after 2 s; 15 s are the bound."""
    asked: list[Word] = [(0, "0-3"), (19, "0-3")]
    late = restarted([(0, "0-3"), (1, "0-3"), (2, "0-2"), (19, "0-2")], asked, [(0, "0-3")])
    assert judged(late).outcome is Outcome.FAILED
    assert judged(restarted(SHRUNK, asked, [(0, "0-3")])).outcome is Outcome.PASSED


def test_what_was_owed_is_judged_by_the_cgroup_that_owed_it() -> None:
    """By the runtime's word it was late; the cgroup of that life had given CPU 3 back in time."""
    owed = Held(claim=BE.name, cpus=CpuSet.parse("3"), why=Why.OWED, from_ns=0, due_ns=15 * SECOND)
    owed = replace(owed, to_ns=round(20.1 * SECOND))
    asked: list[Word] = [(0, "0-3"), (19, "0-2")]
    in_time = restarted([(0, "0-2"), (19, "0-2")], asked, [(0, "0-3"), (8, "0-2")], held=(owed,))
    assert "promised away" not in judged(in_time).reason
    late = restarted([(0, "0-2"), (19, "0-2")], asked, [(0, "0-3"), (19, "0-2")], held=(owed,))
    assert "has CPUs 3, which were promised away" in judged(late).reason


def test_a_container_that_ended_is_judged_up_to_its_end() -> None:
    """It does not begin anew: what stands in the window's other layers is nothing."""
    same: list[Word] = [(0, "0-3"), (19, "0-3")]
    ended = {
        "layers": (),
        "claim_changes": (),
        "transitions": (moment("cgroup-gone", END_S, "host"), moment("claim-removed", END_S + 0.1)),
        "thread_masks": (mask(BE.name, "0-3", first_at_ns=0, last_at_ns=19 * SECOND),),
    }

    assert judged(restarted(same, same, [(0, "0-3"), (8, "0-7")], **ended)).outcome is Outcome.FAILED
    assert judged(restarted(same, same, [(0, "0-3")], **ended)).outcome is Outcome.PASSED


def with_quota(row: CgroupFiles, quota_us: int) -> CgroupFiles:
    return replace(row, quota_us=quota_us, period_us=100_000)


@pytest.mark.parametrize(("quota_us", "outcome"), [(50_000, Outcome.PASSED), (70_000, Outcome.FAILED)])
def test_a_quota_that_was_written_before_a_restart_fails(quota_us: int, outcome: Outcome) -> None:
    """It was read at 8 s in the cgroup that is gone."""
    same: list[Word] = [(0, "0-3"), (19, "0-3")]
    seen = restarted(same, same, [(0, "0-3"), (8, "0-3")])
    before, during, after = (
        tuple(with_quota(row, 50_000) for row in rows)
        for rows in (seen.files_before, seen.files_during, seen.files_after)
    )
    written = tuple(with_quota(row, quota_us) for row in during)
    seen = replace(seen, files_before=before, files_during=written, files_after=after)
    claims = in_force(
        claim_set(replace(BE, quota_us=50_000)),
        [replace(one, claim=replace(one.claim, quota_us=50_000)) for one in seen.claim_changes],
    )
    (verdict,) = applied.RULE.check(claims, seen)

    assert verdict.outcome is outcome, verdict.reason
    assert (CGROUP in verdict.reason) is (outcome is Outcome.FAILED)


def test_a_set_of_a_life_without_layers_is_judged_by_what_was_promised() -> None:
    """podman or docker: nothing but its own word says what was promised."""
    seen = restarted([], [], [(0, "0-3"), (8, "0-7")], layers=(), ended_lives=())

    verdict = judged(seen, applied)

    assert verdict.outcome is Outcome.FAILED
    assert f"in {CGROUP}: as read from 8.0 s to the end cpuset.cpus was 0-7, promised 0-3" in verdict.reason
    sound = judged(restarted([], [], [(0, "0-3")], layers=(), ended_lives=()), applied)
    assert sound.reason == "no control file holds anything that was promised", (
        "one that came in the window has set none"
    )
