"""Time of a claim on CPUs that it had been granted before the node was read again: a transition, no violation.

A followed node is read again and again. CPUs that the next reading gives to a claim may have been the claim's since the
reading before it, so a task of the claim may have run there by right.

Source: pkg/kubelet/cm/cpumanager/cpu_manager.go, ``reconcileState`` (ended containers are removed from the state, and
the others are updated, in one pass); docs/facts.md K-kubelet-11.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CpuUse, Evidence, Transition
from toolkit.model.evidence.following import Granted
from toolkit.model.verdict import Offender


def granted_at(at_ns: int, grants: Iterable[Granted]) -> CpuSet:
    """Return CPUs that may have been the claim's at this moment although no reading had shown it yet.

    :param grants: the claim's own.
    """
    return CpuSet.union(one.cpus for one in grants if one.since_ns <= at_ns <= one.until_ns)


def with_grants(evidence: Evidence) -> Evidence:
    """Return the evidence with the time on granted CPUs counted as a transition, not as outside.

    A grant must cover the first and the last moment of an offender; if the last is not known, the first alone, unless
    the set lost the CPU again in this window. Time that no named offender accounts for stays as it is. An offender that
    came after the last reading of the node (the watch got no CPU, for example) becomes a blind spot.
    """
    following = evidence.following
    if following is None:
        return evidence
    anew = made_anew(evidence)
    evidence = replace(evidence, granted=(*evidence.granted, *anew)) if anew else evidence
    if not evidence.offenders:
        return evidence
    kept, doubted = list[Offender](), list[Offender]()
    forgiven: dict[tuple[str, int], list[Offender]] = {}
    grants: dict[str, list[Granted]] = {}
    for grant in evidence.granted:
        grants.setdefault(grant.claim, []).append(grant)
    for one in evidence.offenders:
        unknown = is_unknown(one.first_at_ns, evidence)
        if unknown or _is_granted(one, grants.get(one.claim, ()), evidence):
            forgiven.setdefault((one.claim, one.cpu), []).append(one)
        else:
            kept.append(one)
        if unknown:
            doubted.append(one)
    if not forgiven:
        return evidence
    guilty = {(one.claim, one.cpu) for one in kept}
    rows = tuple(
        _moved(row, forgiven[place], others=place in guilty) if (place := (row.claim, row.cpu)) in forgiven else row
        for row in evidence.cpu_use
    )
    coverage = evidence.coverage
    if doubted:
        names = ", ".join(sorted({one.claim for one in doubted}))
        text = f"{names} ran outside after the node was read last: what was promised by then is not known"
        spot = BlindSpot(text=text, witnesses=(Witness.SWITCHES,), start_at_ns=following.known_until_ns)
        coverage = replace(coverage, blindness=(*coverage.blindness, spot), blind_spots=(*coverage.blind_spots, text))
    return replace(evidence, cpu_use=rows, offenders=tuple(kept), coverage=coverage)


def made_anew(evidence: Evidence) -> tuple[Granted, ...]:
    """Return what was granted to cgroups that were made again under their name, before their source spoke of them.

    A unit that stops and starts has one name for both lives. The kernel side takes the new cgroup for the claim's at
    once; where the source says next that the claim has ended, what bound until then was the old life's promise. What
    binds is the next one, of this window or just after it. Until there is one the claim has no CPUs, and what ran is
    judged by the old.
    """
    if not any(one.what == "cgroup-made" for one in evidence.transitions):
        return ()
    events: dict[str, list[Transition]] = {}
    for one in sorted(evidence.transitions, key=lambda one: one.start_at_ns):
        events.setdefault(one.claim, []).append(one)
    found = []
    for claim, rows in events.items():
        gone_ns = made_ns = None
        for one in rows:
            if one.what == "cgroup-gone":
                gone_ns, made_ns = one.start_at_ns, None
            elif one.what == "cgroup-made" and gone_ns is not None:
                made_ns = one.start_at_ns
            elif one.what == "claim-removed" and made_ns is not None:
                cpus = _promised_next(claim, one.start_at_ns, evidence)
                found.append(Granted(claim=claim, cpus=cpus, since_ns=made_ns, until_ns=one.end_at_ns))
                gone_ns = made_ns = None
    return tuple(found)


def _promised_next(name: str, at_ns: int, evidence: Evidence) -> CpuSet:
    """Return the CPUs of a claim's next life; none where nothing has spoken of it yet."""
    changes = sorted((one for one in evidence.claim_changes if one.at_ns >= at_ns), key=lambda one: one.at_ns)
    later = (*(one.claim for one in changes), *evidence.later)
    return next((one.cpus for one in later if one.name == name and one.cpus is not None), CpuSet())


def is_unknown(at_ns: int, evidence: Evidence) -> bool:
    """Return whether what was promised at this moment is not known: the node was read last before it."""
    until_ns = None if evidence.following is None else evidence.following.known_until_ns
    return until_ns is not None and at_ns >= until_ns


def _is_granted(one: Offender, grants: Iterable[Granted], evidence: Evidence) -> bool:
    grants = [g for g in grants if one.cpu in g.cpus and g.since_ns <= one.first_at_ns <= g.until_ns]
    if one.last_at_ns is not None:
        return any(one.last_at_ns <= g.until_ns for g in grants)
    return bool(grants) and not _loses(one, min(g.until_ns for g in grants), evidence)


def _loses(one: Offender, known_ns: int, evidence: Evidence) -> bool:
    """Return whether the set lost the CPU again: what ran after that may be in the row, too."""
    later = (t.cpus_after for t in evidence.transitions if t.claim == one.claim and t.end_at_ns > known_ns)
    return any(cpus is not None and one.cpu not in cpus for cpus in later)


def _moved(row: CpuUse, forgiven: list[Offender], *, others: bool) -> CpuUse:
    """Move time into the transition. :param others: whether another task was outside there without a grant."""
    switches = min(row.out_of_set_switches, sum(one.switches for one in forgiven))
    spent_ns = min(row.out_of_set_ns, sum(one.total_ns for one in forgiven))
    rest = row.out_of_set_switches - switches, row.out_of_set_ns - spent_ns
    outside = any(rest) or others
    return replace(
        row,
        out_of_set_switches=rest[0],
        out_of_set_ns=rest[1],
        out_of_set_longest_ns=row.out_of_set_longest_ns if outside else 0,
        out_of_set_samples=row.out_of_set_samples if outside else 0,
        transition_switches=row.transition_switches + switches,
        transition_ns=row.transition_ns + spent_ns,
    )
