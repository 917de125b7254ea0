"""The own cgroup of a followed pod that came or went in a window: what was not read of it is no doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import SECOND, bandwidth, claim_set, claim_web, evidence
from toolkit.model.claims import SubjectKind
from toolkit.model.evidence import BandwidthUse, Transition
from toolkit.model.evidence.following import Following
from toolkit.model.verdict import Outcome
from validators.rules import quota_throttling

POD = bandwidth("web", "/kubepods/podb", 1, bpf_usage_ns=None)


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
    pod = claim_web(name="b/(pod)", pod="b", cgroup="/kubepods/podb", kind=SubjectKind.POD)
    inside = (claim_web(pod="b"), claim_web(name="box", pod="b", kind=SubjectKind.SANDBOX, quota_us=None))
    gone = tuple(
        Transition(claim=name, what="claim-removed", start_at_ns=SECOND, end_at_ns=SECOND, cause="toolkit")
        for name in went
    )
    seen = evidence(bandwidth=rows, transitions=gone, following=Following(source="kubelet"))
    verdict = next(one for one in quota_throttling.RULE(claim_set(*inside, pod), seen) if one.subject == "b/(pod)")
    assert verdict.outcome is outcome, verdict.reason
