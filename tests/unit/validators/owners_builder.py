"""Claims that come, go, grow and shrink in a window, what else ran on their CPUs, and the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.validators.evidence_builder import SECOND, claim_db, cpus, db_files, intruder, mask
from tests.unit.validators.trust_builder import CLAIMS, healthy
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Alignment, Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, Intruder, OwnerClass, Transition
from toolkit.model.verdict import Verdict
from validators.registry import judge

CORES: dict[str, object] = {
    "core_cpus": ["0,1", "2,3"],
    "l3_cpus": ["0-3"],
    "socket_cpus": ["0-3"],
    "numa_nodes": {"0": "0-3"},
}
WHOLE = replace(
    CLAIMS,
    claims=(claim_db(alignments=(Alignment.SMT,)), CLAIMS.claims[1]),
    reserved_cpus=CpuSet(),
    strict_reservation=False,
)


def change(what: str, at_s: float, **more: Any) -> Transition:
    at_ns = round(at_s * SECOND)
    return Transition(**{"claim": "db", "what": what, "start_at_ns": at_ns, "end_at_ns": at_ns + 1, **more})


def removed(at_s: float) -> Transition:
    return change("claim-removed", at_s, cpus_before=cpus("2-3"))


def added(at_s: float, now: str = "2-3") -> Transition:
    return change("claim-added", at_s, cpus_after=cpus(now))


DB = claim_db()
MACHINE = replace(healthy().environment, topology=CORES, virtualization="none")
PLAIN = replace(WHOLE, claims=(DB, WHOLE.claims[1]))


def moved(at_s: float, before: str, after: str, claim: Claim = DB) -> dict[str, Any]:
    """A change of a claim's set that takes 0.1 s, and what is promised by it."""
    step = change(
        "mask-change",
        at_s,
        claim=claim.name,
        end_at_ns=round(at_s * SECOND) + SECOND // 10,
        cpus_before=cpus(before),
        cpus_after=cpus(after),
    )
    now = ClaimChange(at_ns=step.end_at_ns + 1, claim=replace(claim, cpus=cpus(after), demand_cpus=None))
    return {"transitions": (step,), "claim_changes": (now,)}


def guest(cpu: int, at_s: float, total_s: float = 0.5, owner: OwnerClass = OwnerClass.FOREIGN_POD) -> Intruder:
    return intruder(owner, cpu=cpu, first_at_ns=round(at_s * SECOND), total_ns=round(total_s * SECOND))


def seen(*events: dict[str, Any], after: str = "2-3", **more: Any) -> Evidence:
    together = {key: tuple(one for event in events for one in event[key]) for key in ("transitions", "claim_changes")}
    files = (db_files(cpus=cpus(after), cpus_effective=cpus(after)), *healthy().files_after[1:])
    masks = (mask("web", "0", tid=200),)
    return healthy(**{"environment": MACHINE, "files_after": files, "thread_masks": masks, **together, **more})


def verdict(evidence: Evidence, rule: str = "exclusive-cpus", subject: str = "db", claims: ClaimSet = PLAIN) -> Verdict:
    (found,) = (one for one in judge(claims, evidence) if (one.rule, one.subject) == (rule, subject))
    return found


SHRINK = moved(5, "2-3", "2")
GROW = moved(5, "2", "2-3", replace(DB, cpus=cpus("2")))
SMALL = replace(PLAIN, claims=(replace(DB, cpus=cpus("2")), PLAIN.claims[1]))
