"""Rule ``numa-alignment``: the claim's CPUs lie on one NUMA node, and its memory on the same one."""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.claims import Alignment, Claim, ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome, Verdict
from validators import groups
from validators.alignment import judge_asked, within_one
from validators.rule import Rule, RuleDoc, prose
from validators.witness import Witness

ID = "numa-alignment"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised one NUMA node."""
    return judge_asked(ID, Alignment.NUMA, claims, lambda claim: _judge(claim, evidence))


def _judge(claim: Claim, evidence: Evidence) -> Verdict:
    machine = groups.nodes(evidence)
    owners = None if machine is None else tuple(cpus for cpus in machine.values() if cpus)
    verdict = within_one(ID, claim, evidence, owners, ("NUMA node", "NUMA nodes"))
    if machine is None or claim.cpus is None or claim.mems is None or verdict.outcome is not Outcome.PASSED:
        return verdict
    node = groups.nodes_of(claim.cpus, machine)
    if claim.mems == node:
        return replace(verdict, reason=f"{verdict.reason}, node {node}, as its memory")
    return replace(
        verdict,
        outcome=Outcome.FAILED,
        reason=f"CPUs {claim.cpus} lie on NUMA node {node}, its memory on {claim.mems or 'none'}",
    )


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="CPUs that were promised on one NUMA node lie on one, and the memory nodes are the same one.",
        how=prose("""
            Each CPU set that held during the window (promised, and granted by the kernel when the window opened and
            closed) is compared with the CPUs of each node as sysfs reports them. Where memory nodes were promised, they
            must be exactly that node. If a set or the topology was not read the verdict is undecided.
        """),
        tolerance="None.",
        source=prose("""
            Kubernetes documentation, Topology Manager (single-numa-node) and Memory Manager;
            Documentation/ABI/stable/sysfs-devices-node; docs/failures.md F37, F38
        """),
        negative_control="Give the cgroup CPUs of two nodes: `echo 0,8 > cpuset.cpus`.",
        witnesses=(Witness.FILES,),
    ),
    check,
)
