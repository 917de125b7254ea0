"""What an edit of evidence is, and the edits that several promises need."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolkit.model.claims import Claim, SubjectKind
from toolkit.model.evidence import CgroupFiles, Evidence, Intruder, OwnerClass

MS = 1_000_000
LEVELS = {SubjectKind.POD: "of pods", SubjectKind.QOS: "of QoS classes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A promise that is broken. :param subject: whose verdict of the rule must be ``failed``.

    :param promise: in the words of ``conformance --list`` (:mod:`toolkit.session.planning.judged`).
    """

    promise: str
    rule: str
    subject: str
    evidence: Evidence


def quota_word(claim: Claim) -> str:
    """Name what is promised about a claim's quota."""
    word = "no quota" if claim.quota_us is not None and claim.quota_us < 0 else "quota"
    return f"{word} {LEVELS.get(claim.kind, '')}".rstrip()


def with_files(evidence: Evidence, claim: Claim, **values: object) -> Evidence:
    """Change what a claim's files said, at both ends of the window."""

    def changed(files: tuple[CgroupFiles, ...]) -> tuple[CgroupFiles, ...]:
        return tuple(replace(one, **values) if one.cgroup == claim.cgroup else one for one in files)  # type: ignore[arg-type]

    return replace(evidence, files_before=changed(evidence.files_before), files_after=changed(evidence.files_after))


def intruded(evidence: Evidence, cpu: int) -> Evidence:
    row = Intruder(
        cpu=cpu,
        tid=9,
        comm="stranger",
        owner=OwnerClass.FOREIGN_POD,
        cgroup="/pinproof-stand/other",
        switches=1,
        total_ns=MS,
        longest_ns=MS,
        first_at_ns=0,
    )
    return replace(evidence, intruders=(*evidence.intruders, row))


def edit(promise: str, rule: str, claim: Claim, evidence: Evidence) -> Edit:
    return Edit(promise=promise, rule=rule, subject=claim.name, evidence=evidence)
