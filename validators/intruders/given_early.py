"""CPUs that a kubelet gave to another pod before their old owner had ended: whose doing an overlap is.

A kubelet frees the CPUs of a pod that it takes for ended. Where its container is ending still (a long grace period, a
task that cannot be killed) the next pod gets CPUs that are in use. The old owner runs where it was promised to run:
what gave its CPUs away broke both promises. Source: docs/facts.md K-kubelet-12.
"""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import Evidence
from toolkit.model.held import Held, Why
from toolkit.model.verdict import Outcome, Verdict
from validators.queries import timeline, view
from validators.wording import listed, seconds


def given_early(one: Held, claims: ClaimSet, end_ns: int) -> str:
    """Return to what a claim's CPUs were given, and how long before it ended; empty: they were not its own.

    ``it is ending; the kubelet gave its CPU 1 to ex42/main 1.1 s before``.

    :param end_ns: of its life, or of the window.
    """
    if one.why is not Why.TAKEN or one.cpus is None:
        return ""
    cpus, over = one.cpus, one.to_ns <= end_ns
    owners = sorted(claim.name for claim in claims.claims if claim.name != one.claim and _owns(claim, cpus))
    whose = listed(owners or ["another pod"])
    lasted = seconds(min(one.to_ns, end_ns) - one.from_ns)
    when = f"{lasted} before" if over else f"{lasted} before this window ended, and it still runs"
    return f"it is ending; the kubelet gave its {cpus_text(cpus)} to {whose} {when}"


def early_of(names: frozenset[str], cpus: CpuSet, claims: ClaimSet, evidence: Evidence) -> str:
    """Return the same of claims that ran on these CPUs of another, each by its name; empty: of none."""
    told = {
        one.claim: text
        for one in timeline.owed(evidence)
        if one.claim in names
        and one.cpus
        and one.cpus & cpus
        and (text := given_early(one, claims, evidence.duration_ns))
    }
    return "; ".join(f"{name}: {told[name]}" for name in sorted(told))


def with_early(verdict: Verdict, cpus: CpuSet, claims: ClaimSet, evidence: Evidence) -> Verdict:
    """Return a failure of a claim with what gave its CPUs away. :param cpus: that it ran on, and must not."""
    if verdict.outcome is not Outcome.FAILED:
        return verdict
    rows = (one for one in timeline.owed(evidence) if one.claim == verdict.subject and one.cpus and one.cpus & cpus)
    text = next((text for one in rows if (text := given_early(one, claims, evidence.duration_ns))), "")
    return replace(verdict, reason=f"{verdict.reason}; {text}") if text else verdict


def _owns(claim: Claim, cpus: CpuSet) -> bool:
    return claim.isolation is not Isolation.HOST and view.is_workload(claim) and bool((claim.cpus or CpuSet()) & cpus)
