"""Evidence that passes every rule, and the losses that each take passes away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.validators.evidence_builder import (
    CLEAN,
    POSITIVE,
    claim_set,
    claim_web,
    coverage,
    cpus,
    evidence,
    in_slots,
    mask,
    on_every_cpu,
    use,
)
from toolkit.model.evidence import Evidence, HotplugEvent
from toolkit.model.evidence.following import Following
from toolkit.model.verdict import Outcome, Verdict
from validators.credibility.trust import FOLLOW_GAP_NS
from validators.rules import evidence_health

CLAIMS = claim_set(reserved_cpus=cpus("1"), strict_reservation=True)
CLAIMS = replace(CLAIMS, claims=(CLAIMS.claims[0], claim_web(cpus=cpus("0"), demand_cpus=1.0)))


def healthy(**changes: Any) -> Evidence:
    """Evidence for :data:`CLAIMS` that passes every rule."""
    base = evidence()
    web = [replace(entry, cpus=cpus("0"), cpus_effective=cpus("0")) for entry in base.files_before[1:]]
    values: dict[str, Any] = {
        "coverage": coverage(positive_control_latency_ms=None),  # that is what the canaries say
        "cpu_use": (use("db", 2), use("db", 3), use("web", 0, run_ns=5_000_000_000, samples=500)),
        "thread_masks": (mask("db", "2-3"), mask("web", "0", tid=200)),
        "files_before": (base.files_before[0], *web),
        "files_after": (base.files_after[0], *web),
    }
    values |= on_every_cpu(changes)
    return replace(base, **{"usage_bins": in_slots(values["cpu_use"]), **values})


def by_key(verdicts: tuple[Verdict, ...]) -> dict[tuple[str, str], Outcome]:
    return {(verdict.rule, verdict.subject): verdict.outcome for verdict in verdicts}


def health(**changes: Any) -> Verdict:
    return evidence_health.RULE(CLAIMS, healthy(**changes))[0]


LOSSES: list[dict[str, Any]] = [
    {"coverage": coverage(lost_events=1)},
    {"coverage": coverage(map_full=1)},
    {"coverage": coverage(missed_runs=1)},
    {"coverage": coverage(cpus_seen=cpus("0-2"))},
    {"coverage": coverage(switches_judged=1_204_000)},
    {"coverage": coverage(switches_judged=1_205_000)},
    {"coverage": coverage(switches_kernel=0)},
    {"coverage": coverage(switches_judged=0)},
    {"canaries": ()},
    {"canaries": (CLEAN,)},
    {"canaries": (POSITIVE,)},
    {"canaries": (replace(POSITIVE, out_of_set_switches=0, out_of_set_ns=0), CLEAN)},
    {"canaries": (replace(POSITIVE, out_of_set_switches=400), CLEAN)},
    {"canaries": (replace(POSITIVE, reported_at_ns=None), CLEAN)},
    {"canaries": (replace(POSITIVE, reported_at_ns=POSITIVE.planted_at_ns + 250_000_001), CLEAN)},
    {"canaries": (POSITIVE, replace(CLEAN, run_ns=0))},
    {"hotplug": (HotplugEvent(cpu=3, online=False, at_ns=5),)},
    {"duration_ns": 0, "bandwidth": (), "cpu_use": ()},
    {"following": Following(source="docker", unanswered=1, gap_ns=1, missing=("docker: refused",))},
    {"following": Following(source="docker", readings=9, unanswered=8, gap_ns=FOLLOW_GAP_NS + 1)},
    {"following": Following(source="docker", readings=2, gap_ns=FOLLOW_GAP_NS + 1)},
]
