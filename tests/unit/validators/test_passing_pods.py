"""The own cgroup of a followed pod that came or went in a window: what was not read of it is no doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, bandwidth, claim_set, claim_web, evidence, files
from toolkit.model.claim_changes import ClaimChange, in_force
from toolkit.model.claims import Claim, SubjectKind
from toolkit.model.evidence import BandwidthUse, Transition
from toolkit.model.evidence.following import Following
from toolkit.model.verdict import Outcome, Verdict
from validators.registry import judge
from validators.rule import Rule
from validators.rules import applied, quota_free, quota_throttling

POD = bandwidth("web", "/kubepods/podb", 1, bpf_usage_ns=None)


INSIDE = (claim_web(pod="b"), claim_web(name="box", pod="b", kind=SubjectKind.SANDBOX, quota_us=None))
OWN = claim_web(name="b/(pod)", pod="b", cgroup="/kubepods/podb", kind=SubjectKind.POD, cpus=None, memory_bytes=1 << 26)


def judged(
    rule: Rule, went: tuple[str, ...], pod: Claim = OWN, changes: tuple[ClaimChange, ...] = (), **found: Any
) -> Verdict:
    """The verdict about the pod in a window in which these of its containers went."""
    gone = tuple(
        Transition(claim=name, what="claim-removed", start_at_ns=SECOND, end_at_ns=SECOND, cause="toolkit")
        for name in went
    )
    seen = evidence(transitions=gone, following=Following(source="kubelet"), **found)
    return next(one for one in rule(in_force(claim_set(*INSIDE, pod), changes), seen) if one.subject == "b/(pod)")


@pytest.mark.parametrize(("went", "outcome"), [(("web", "box"), Outcome.SKIPPED), (("web",), Outcome.UNDECIDED)])
def test_files_that_were_going(went: tuple[str, ...], outcome: Outcome) -> None:
    """On v1 each hierarchy's cgroup goes by itself: the quota was read, the memory limit was not any more."""
    last = files("/kubepods/podb", quota_us=50_000, period_us=100_000, burst_us=0)
    first = replace(last, memory_max_bytes=1 << 26)
    verdict = judged(applied.RULE, went, files_before=(first,), files_after=(last,), files_during=())
    assert verdict.outcome is outcome, verdict.reason
    assert verdict.reason == "the memory limit of /kubepods/podb was not read after the window"


@pytest.mark.parametrize(
    ("went", "rows", "outcome"),
    [
        (("web", "box"), (), Outcome.SKIPPED),
        (("web", "box"), (replace(POD, window_ns=0),), Outcome.SKIPPED),
        (("web",), (), Outcome.UNDECIDED),
        ((), (), Outcome.UNDECIDED),
    ],
)
def test_counters_that_were_not_read_twice(
    went: tuple[str, ...], rows: tuple[BandwidthUse, ...], outcome: Outcome
) -> None:
    """Its own cgroup was there for one reading or none; where something of the pod stayed it was there all the time."""
    verdict = judged(quota_throttling.RULE, went, bandwidth=rows)
    assert verdict.outcome is outcome, verdict.reason


HALF = replace(POD, window_ns=SECOND, nr_periods=None, nr_throttled=None, throttled_ns=None)
"""On v1 the cgroup's CPU time and its quota were read while it went, its periods were not any more."""


@pytest.mark.parametrize("rule", [quota_throttling.RULE, quota_free.RULE], ids=["quota", "no quota"])
@pytest.mark.parametrize(("went", "outcome"), [(("web", "box"), Outcome.SKIPPED), (("web",), Outcome.UNDECIDED)])
def test_counters_of_which_a_part_was_read(rule: Rule, went: tuple[str, ...], outcome: Outcome) -> None:
    """What was not read of it is no doubt where all that is in it went."""
    pod = OWN if rule is quota_throttling.RULE else replace(OWN, quota_us=-1)
    verdict = judged(rule, went, pod, bandwidth=(HALF,))
    assert verdict.outcome is outcome, verdict.reason


def test_a_quota_that_was_read_while_it_went_fails() -> None:
    """It was promised none, and had one."""
    pod = replace(OWN, quota_us=-1)
    verdict = judged(quota_free.RULE, ("web", "box"), pod, bandwidth=(replace(HALF, quota_us=50_000),))
    assert verdict.outcome is Outcome.FAILED, verdict.reason


@pytest.mark.parametrize(("went", "there"), [(("box",), False), ((), True)])
def test_a_pod_of_which_nothing_was_left(went: tuple[str, ...], there: bool) -> None:
    """Its containers were gone before the window opened: its own cgroup, which went then, has no verdict either."""
    gone = tuple(
        Transition(claim=name, what="claim-removed", start_at_ns=SECOND, end_at_ns=SECOND, cause="toolkit")
        for name in went
    )
    seen = evidence(
        transitions=gone,
        following=Following(source="kubelet"),
        files_before=(),
        cpu_use=(),
        thread_masks=(),
        bandwidth=(replace(POD, claim="box", window_ns=0),),
    )
    subjects = {verdict.subject for verdict in judge(claim_set(INSIDE[1], OWN), seen)}
    assert ("b/(pod)" in subjects) is there


@pytest.mark.parametrize("rule", [quota_throttling.RULE, quota_free.RULE], ids=["quota", "no quota"])
@pytest.mark.parametrize(("went", "outcome"), [(("web", "box"), Outcome.SKIPPED), (("web",), Outcome.UNDECIDED)])
def test_a_promise_that_went_with_its_containers(rule: Rule, went: tuple[str, ...], outcome: Outcome) -> None:
    """When the last container has gone nothing says any more what quota the pod has."""
    change = ClaimChange(at_ns=2 * SECOND, claim=replace(OWN, quota_us=None))
    verdict = judged(rule, went, changes=(change,), bandwidth=(POD,))
    assert verdict.outcome is outcome, verdict.reason
    assert verdict.reason.endswith("its quota was promised anew at 2.0 s")
