"""Rule ``numa-alignment``: CPUs lie on as few NUMA nodes, as evenly and as near as was promised, and so does memory."""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.claims import Alignment, Claim, ClaimSet, Preference
from toolkit.model.evidence import Evidence
from toolkit.model.measures import levels, sets, words
from toolkit.model.verdict import Outcome, Verdict, worst
from validators.placement import groups, node_spread
from validators.placement.alignment import judge_asked, within_one
from validators.placement.node_spread import Found
from validators.placement.promised import Stand
from validators.rule import Rule, RuleDoc, prose
from validators.witness import Witness

ID = "numa-alignment"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised something about its NUMA nodes."""
    return judge_asked(ID, Alignment.NUMA, claims, evidence, lambda stand: _judge(stand, claims, evidence), _asked)


def _asked(claim: Claim) -> bool:
    kinds = {Alignment.NUMA, Alignment.NUMA_EVEN, Alignment.NUMA_POD}
    return bool(
        kinds & set(claim.alignments) or claim.max_numa_nodes is not None or Preference.CLOSEST in claim.preferences
    )


def _judge(stand: Stand, claims: ClaimSet, evidence: Evidence) -> Verdict:
    claim = stand.claim
    machine = groups.nodes(evidence)
    if machine is None:
        return Verdict(
            rule=ID,
            subject=claim.name,
            outcome=Outcome.UNDECIDED,
            reason="the machine's NUMA nodes are not known",
            measures={"cpus": str(claim.cpus or "")},
        )
    one = _one_node(stand, evidence, machine) if Alignment.NUMA in claim.alignments else None
    found = [] if one is None else [(one.outcome, one.reason)]
    found += _parts(stand, claims, evidence, machine)
    measures = {} if one is None else dict(one.measures)
    measures.setdefault("cpus", str(claim.cpus or ""))
    if claim.max_numa_nodes is not None:
        measures["max_numa_nodes"] = claim.max_numa_nodes
    if not found:
        found = [(Outcome.SKIPPED, "it is promised with others of its pod only")]
    outcome = worst(part for part, _ in found)
    # What is preferred and was not given is said beside what is guaranteed and kept.
    shown = (outcome, Outcome.SKIPPED) if outcome is Outcome.PASSED else (outcome,)
    reason = "; ".join(text for part, text in found if part in shown)
    return Verdict(rule=ID, subject=claim.name, outcome=outcome, reason=reason, measures=measures)


def _parts(stand: Stand, claims: ClaimSet, evidence: Evidence, machine: node_spread.Nodes) -> list[Found]:
    claim, found = stand.claim, list[Found]()
    most = 1 if Alignment.NUMA in claim.alignments else claim.max_numa_nodes
    if claim.max_numa_nodes is not None:
        found.append(node_spread.at_most(stand, evidence, machine, claim.max_numa_nodes))
    if Alignment.NUMA_POD in claim.alignments and most is not None:
        found.append(node_spread.of_pod(stand, claims, evidence, machine, most))
    if Alignment.NUMA_EVEN in claim.alignments:
        found.append(node_spread.even(stand, evidence, machine))
    if Preference.CLOSEST in claim.preferences:
        found.append(node_spread.closest(stand, evidence, machine))
    return found


def _one_node(stand: Stand, evidence: Evidence, machine: node_spread.Nodes) -> Verdict:
    claim = stand.claim
    owners = tuple(cpus for cpus in machine.values() if cpus)
    verdict = within_one(ID, stand, evidence, owners, ("NUMA node", "NUMA nodes"))
    if claim.cpus is None or claim.mems is None or verdict.outcome is not Outcome.PASSED:
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
        claim="CPUs lie on as few NUMA nodes, as evenly and as near as was promised; memory on the node of the CPUs.",
        how=prose("""
            Each CPU set that held during the window (promised, and granted by the kernel when the window opened and
            closed, if it was promised then) is compared with the CPUs of each node as sysfs reports them.

            single-numa-node: one node, and where memory nodes were promised exactly that one. restricted: at most as
            many nodes as the request needs on this machine. In pod scope that holds for the CPUs of the pod's
            containers together. distribute-cpus-across-numa: every node that is used gives as many CPUs (whole cores
            with full-pcpus-only) as the others.

            prefer-closest-numa-nodes is a preference. If the nodes are not the nearest, the reason states that, and the
            verdict is skipped unless something else was promised; if they are, they must stay the nearest. If a set or
            the topology was not read the verdict is undecided.
        """),
        tolerance="An even spread: one CPU (one core), where the number cannot be divided. Else none.",
        source=prose("""
            Kubernetes documentation, Topology Manager (policies, scopes, prefer-closest-numa-nodes), static policy
            options (distribute-cpus-across-numa) and Memory Manager; Documentation/ABI/stable/sysfs-devices-node;
            docs/failures.md F37, F38
        """),
        negative_control="Give the cgroup CPUs of two nodes: `echo 0,8 > cpuset.cpus`.",
        witnesses=(Witness.FILES,),
        measures=(
            *sets("cpus"),
            *levels("groups_count"),
            *words("preferred", "max_numa_nodes"),
        ),
    ),
    check,
)
