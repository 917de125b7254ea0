"""What the four alignment rules share: which CPU sets are judged, and how a promise to stay in one group is decided.

Source: Kubernetes documentation "Control CPU Management Policies" (``docs/specification.md``), the policy options;
"Topology Manager", policy ``single-numa-node``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from toolkit.model.claims import Alignment, Claim, ClaimSet, Preference
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Measure, Outcome, Verdict, together
from validators.placement import groups, promised
from validators.placement.promised import Stand
from validators.queries import view
from validators.rule import Judgement

Judge = Callable[[Stand], Verdict]
NODE = "node"
NOT_GIVEN = "preferred, not guaranteed"
"""How the reason begins for which a preference that was not kept is skipped."""


def judge_asked(
    rule: str,
    alignment: Alignment,
    claims: ClaimSet,
    evidence: Evidence,
    judge: Judge,
    asked: Callable[[Claim], bool] | None = None,
) -> tuple[Verdict, ...]:
    """Judge the claims that were promised the alignment, for as long as they were; say once where none was.

    :param asked: which those are, where the alignment itself is not all of it.
    """
    wanted = asked or (lambda claim: alignment in claim.alignments)
    found = []
    for claim in claims.claims:
        verdicts = [_timed(judge(one), one) for one in promised.stands(claims, claim, evidence.transitions, wanted)]
        found += [together(verdicts)] if verdicts else []
    if found:
        return tuple(found)
    reason = f"no claim promises {alignment} alignment"
    return (Verdict(rule=rule, subject=NODE, outcome=Outcome.SKIPPED, reason=reason, measures={}),)


def _timed(verdict: Verdict, stand: Stand) -> Verdict:
    """Say of which time a verdict is, where that is not the whole window."""
    return replace(verdict, reason=f"{stand.when}: {verdict.reason}") if stand.when else verdict


def sets_in_force(stand: Stand, evidence: Evidence) -> tuple[tuple[str, CpuSet], ...] | str:
    """Return every CPU set that held while it was promised, with its name: promised, and granted by the kernel.

    What the kernel granted within the window just before a promise ended, or just after it began, is of neither: a
    kubelet writes before or after its word is known here. A text instead says which evidence is missing.
    """
    found = [("promised", cpus) for cpus in stand.sets]
    claim = stand.claim
    for when, files, in_time in (
        ("before", evidence.files_before, stand.from_begin),
        ("after", evidence.files_after, stand.to_end),
    ):
        own = view.files_of(files, claim.cgroup) if in_time else None
        if in_time and (own is None or own.cpus_effective is None):
            return f"the cpuset of {claim.cgroup} was not read {when} the window"
        if own is not None and own.cpus_effective is not None:
            found.append((f"granted {when} the window", own.cpus_effective))
    if not found:
        return f"which CPUs {claim.name} had then is not known"
    if any(not cpus for _, cpus in found):
        return f"the CPU set of {claim.name} is empty"
    return tuple(dict.fromkeys(found))


def within_one(
    rule: str, stand: Stand, evidence: Evidence, machine: tuple[CpuSet, ...] | None, what: tuple[str, str]
) -> Verdict:
    """Judge that each set in force lies within one group. ``what``: the group's name, and its plural."""
    (one, many), claim = what, stand.claim
    sets = sets_in_force(stand, evidence)
    measures: dict[str, Measure] = {"cpus": str(claim.cpus or "")}
    verdict = Judgement(rule, claim.name, measures)
    if machine is None:
        return verdict(Outcome.UNDECIDED, f"the machine's {many} are not known")
    if isinstance(sets, str):
        return verdict(Outcome.UNDECIDED, sets)
    known = CpuSet()
    for group in machine:
        known = known | group
    spread = {cpus: [group for group in machine if group & cpus] for _, cpus in sets}
    measures["groups_count"] = max(len(found) for found in spread.values())
    for name, cpus in sets:
        if len(spread[cpus]) > 1:
            where = ", ".join(str(group & cpus) for group in spread[cpus][:4])
            return verdict(Outcome.FAILED, f"CPUs {cpus} ({name}) lie on {len(spread[cpus])} {many}: {where}")
    for name, cpus in sets:
        if not cpus <= known:
            return verdict(Outcome.UNDECIDED, f"the {one} of CPUs {cpus - known} ({name}) is not known")
    return verdict(Outcome.PASSED, f"CPUs {claim.cpus or sets[-1][1]} lie on one {one}")


def within_one_if_possible(
    rule: str,
    preference: Preference,
    stand: Stand,
    evidence: Evidence,
    machine: tuple[CpuSet, ...] | None,
    what: tuple[str, str],
) -> Verdict:
    """Judge a group that is guaranteed, or preferred: then what was given decides, and must stay as it was given.

    That it was not given is reported, and breaks nothing.
    """
    claim = stand.claim
    if preference not in claim.preferences:
        return within_one(rule, stand, evidence, machine, what)
    own = claim.cpus or CpuSet()
    spread = [group for group in machine or () if group & own]
    if len(spread) > 1:
        return not_given(rule, claim, f"CPUs {own} lie on {len(spread)} {what[1]}", {"groups_count": len(spread)})
    verdict = within_one(rule, stand, evidence, machine, what)
    return replace(verdict, measures={**verdict.measures, "preferred": True})


def not_given(rule: str, claim: Claim, found: str, measures: dict[str, Measure]) -> Verdict:
    """Return the verdict about a preference that the node did not keep: reported apart, nothing is broken."""
    return Verdict(
        rule=rule,
        subject=claim.name,
        outcome=Outcome.SKIPPED,
        reason=f"{NOT_GIVEN}: {found}",
        measures={**measures, "preferred": True},
    )


def not_in_a_guest(rule: str, claim: Claim, evidence: Evidence, what: str) -> Verdict | None:
    """Return ``skipped`` where the machine is virtual: the hypervisor may make up what is judged."""
    guest = groups.virtual(evidence)
    if not guest:
        return None
    reason = f"{groups.VIRTUAL_MACHINE} ({guest}): {what}"
    return Verdict(rule=rule, subject=claim.name, outcome=Outcome.SKIPPED, reason=reason, measures={})
