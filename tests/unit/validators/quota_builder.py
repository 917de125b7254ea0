"""What the tests of rule ``quota-throttling`` build: levels, what was used, the time a claim was free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.validators.evidence_builder import (
    bandwidth,
    claim_set,
    claim_web,
    evidence,
    use,
    web_bandwidth,
)
from toolkit.model.evidence import BandwidthUse, Evidence
from toolkit.model.verdict import Verdict
from validators.rules import quota_throttling

MS = 1_000_000
POD = web_bandwidth(cgroup="/kubepods/podb", level=1, bpf_usage_ns=None)
ROOT = bandwidth("web", "/kubepods", 2, bpf_usage_ns=None)


def levels(own: BandwidthUse, pod: BandwidthUse = POD, root: BandwidthUse = ROOT, **changes: Any) -> Evidence:
    ledger_ns = own.usage_ns if own.bpf_usage_ns is None else own.bpf_usage_ns
    rows = (use("web", 0, run_ns=ledger_ns or 1, samples=20), use("web", 1, run_ns=1, samples=0))
    return evidence(**{"bandwidth": (own, pod, root), "cpu_use": rows, **changes})


def web(found: Evidence, **claim: Any) -> Verdict:
    return quota_throttling.RULE(claim_set(claim_web(**claim)), found)[0]


def used(ms: float, **changes: Any) -> BandwidthUse:
    """``web`` with this much CPU time by both witnesses; its file says nothing unless told."""
    never = {"throttled_ns": 0} if changes.get("nr_throttled") == 0 else {}
    values = {"usage_ns": int(ms * MS), "bpf_usage_ns": int(ms * MS), **never, **changes}
    return web_bandwidth(**values)


FREE = replace(POD, quota_us=-1, nr_periods=0, nr_throttled=0)
