"""The own cgroup of a followed pod that came or went in a window: what was not read of it is no doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, bandwidth, claim_set, claim_web, evidence, files
from toolkit.model.claims import SubjectKind
from toolkit.model.evidence import BandwidthUse, Transition
from toolkit.model.evidence.following import Following
from toolkit.model.verdict import Outcome, Verdict
from validators.rule import Rule
from validators.rules import applied, quota_throttling

POD = bandwidth("web", "/kubepods/podb", 1, bpf_usage_ns=None)


INSIDE = (claim_web(pod="b"), claim_web(name="box", pod="b", kind=SubjectKind.SANDBOX, quota_us=None))
OWN = claim_web(name="b/(pod)", pod="b", cgroup="/kubepods/podb", kind=SubjectKind.POD, cpus=None, memory_bytes=1 << 26)


def judged(rule: Rule, went: tuple[str, ...], **found: Any) -> Verdict:
    """The verdict about the pod in a window in which these of its containers went."""
    gone = tuple(
        Transition(claim=name, what="claim-removed", start_at_ns=SECOND, end_at_ns=SECOND, cause="toolkit")
        for name in went
    )
    seen = evidence(transitions=gone, following=Following(source="kubelet"), **found)
    return next(one for one in rule(claim_set(*INSIDE, OWN), seen) if one.subject == "b/(pod)")


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
