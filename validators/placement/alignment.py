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
from toolkit.model.verdict import Measure, Outcome, Verdict
from validators.placement import groups
from validators.queries import view
from validators.rule import Judgement

Judge = Callable[[Claim], Verdict]
NODE = "node"
NOT_GIVEN = "preferred, not guaranteed"
"""How the reason begins for which a preference that was not kept is skipped."""


def judge_asked(
    rule: str,
    alignment: Alignment,
    claims: ClaimSet,
    judge: Judge,
    asked: Callable[[Claim], bool] | None = None,
) -> tuple[Verdict, ...]:
    """Judge the claims that were promised the alignment; say once where none was.

    :param asked: which those are, where the alignment itself is not all of it.
    """
    found = [claim for claim in claims.claims if (asked(claim) if asked else alignment in claim.alignments)]
    if found:
        return tuple(judge(claim) for claim in found)
    reason = f"no claim was promised {alignment} alignment"
    return (Verdict(rule=rule, subject=NODE, outcome=Outcome.SKIPPED, reason=reason, measures={}),)


def sets_in_force(claim: Claim, evidence: Evidence) -> tuple[tuple[str, CpuSet], ...] | str:
    """Return every CPU set that held during the window, with its name: promised, and granted by the kernel.

    A text instead says which evidence is missing.
    """
    found: list[tuple[str, CpuSet]] = []
    changes = view.mask_changes(claim.name, evidence.transitions)
    for epoch in range(len(changes) + 1):
        promised = view.set_at_epoch(claim, changes, epoch)
        if promised is not None:
            found.append(("promised", promised))
    for when, files in (("before", evidence.files_before), ("after", evidence.files_after)):
        own = view.files_of(files, claim.cgroup)
        if own is None or own.cpus_effective is None:
            return f"the cpuset of {claim.cgroup} was not read {when} the window"
        found.append((f"granted {when} the window", own.cpus_effective))
    if any(not cpus for _, cpus in found):
        return f"the CPU set of {claim.name} is empty"
    return tuple(dict.fromkeys(found))


def within_one(
    rule: str, claim: Claim, evidence: Evidence, machine: tuple[CpuSet, ...] | None, what: tuple[str, str]
) -> Verdict:
    """Judge that each set in force lies within one group. ``what``: the group's name, and its plural."""
    one, many = what
    sets = sets_in_force(claim, evidence)
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
    claim: Claim,
    evidence: Evidence,
    machine: tuple[CpuSet, ...] | None,
    what: tuple[str, str],
) -> Verdict:
    """Judge a group that is guaranteed, or preferred: then what was given decides, and must stay as it was given.

    That it was not given is reported, and breaks nothing.
    """
    if preference not in claim.preferences:
        return within_one(rule, claim, evidence, machine, what)
    own = claim.cpus or CpuSet()
    spread = [group for group in machine or () if group & own]
    if len(spread) > 1:
        return not_given(rule, claim, f"CPUs {own} lie on {len(spread)} {what[1]}", {"groups_count": len(spread)})
    verdict = within_one(rule, claim, evidence, machine, what)
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
