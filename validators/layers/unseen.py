"""Rule ``layers-agree`` on a still picture: what runs in pods, and what no layer that promises says anything of.

Source: docs/facts.md "Normal on a healthy node" (pod sandboxes are not pinned).
"""

from __future__ import annotations

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import Evidence
from toolkit.model.picture import Picture
from toolkit.model.verdict import Measure, Outcome, Verdict
from validators.queries import view
from validators.queries.memo import memoised


def check(rule: str, claims: ClaimSet, evidence: Evidence) -> list[Verdict]:
    """Return a verdict of each container that runs by the runtime's word and of which nothing was read; and of each
    cgroup that the runtime does not list and that has exclusive CPUs of another pod.
    """
    picture = evidence.picture or Picture()
    found = [
        Verdict(
            rule=rule,
            subject=one.part,
            outcome=Outcome.UNDECIDED,
            reason=f"it runs by the runtime's word, and nothing of it was read: {one.reason}",
            measures={},
        )
        for one in picture.lost
    ]
    named = {claim.name: claim for claim in claims.claims}
    for row in picture.unlisted:
        verdict = _unlisted(rule, named[row.claim], claims, evidence, row.doubt) if row.claim in named else None
        found += [] if verdict is None else [verdict]
    return found


def _unlisted(rule: str, claim: Claim, claims: ClaimSet, evidence: Evidence, doubt: str) -> Verdict | None:
    """A set that something has written is a container's, and one that is not listed is no claim's: nothing moves it."""
    files = view.files_of(evidence.files_before, claim.cgroup)
    held = (files.cpus_effective if files.cpus_effective is not None else files.cpus) if files else None
    owned, owners = foreign(claim, claims, held or CpuSet())
    overlap = (held or CpuSet()) & owned
    if not overlap:
        return None
    measures: dict[str, Measure] = {"cgroup_cpus": str(held), "overlap_cpus": str(overlap)}
    text = f"{claim.cgroup} is in no list of the runtime, and runs on {cpus_text(overlap)}, exclusive to {owners}"
    at_once = evidence.picture is not None and evidence.picture.at_once
    doubt = doubt or ("" if at_once else "the list was read later, and it may have ended before")
    outcome, reason = (Outcome.UNDECIDED, f"{text}; {doubt}") if doubt else (Outcome.FAILED, text)
    return Verdict(rule=rule, subject=claim.name, outcome=outcome, reason=reason, measures=measures)


def foreign(claim: Claim, claims: ClaimSet, held: CpuSet) -> tuple[CpuSet, str]:
    """Return the exclusive CPUs of other pods, and whose those among ``held`` are."""
    others = [
        other
        for other in _owners(claims.claims)
        if not view.same_pod(claim, other) and (not claim.pod_uid or claim.pod_uid != other.pod_uid)
    ]
    owned = CpuSet.union(other.cpus for other in others if other.cpus)
    own = claim.cpus if claim.isolation != "host" else None
    return owned - (own or CpuSet()), ", ".join(other.name for other in others if other.cpus and other.cpus & held)


@memoised
def _owners(claims: tuple[Claim, ...]) -> list[Claim]:
    """Return those with CPUs of their own: few of the many of a node."""
    return [one for one in claims if one.cpus and one.isolation != "host" and view.is_workload(one)]
