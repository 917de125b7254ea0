"""Rule ``hugepages``: the limit of each huge page size stands, usage keeps to it, the pages are on the right nodes."""

from __future__ import annotations

from toolkit.model.claims import Claim, ClaimSet, HugepageLimit
from toolkit.model.cpuset import CpuSet, nodes_text
from toolkit.model.evidence import Evidence
from toolkit.model.evidence.following import LIMITS
from toolkit.model.measures import Better, amounts, levels
from toolkit.model.memory_units import limit_in_force
from toolkit.model.placement import HugetlbUse, PageKind
from toolkit.model.verdict import Measure, Outcome, Verdict
from validators.placement import groups
from validators.queries import view
from validators.rule import Judgement, Rule, RuleDoc, prose
from validators.witness import Witness

ID = "hugepages"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised a limit on huge pages."""
    asked = [claim for claim in claims.claims if claim.hugepages]
    if not asked:
        missing = evidence.following.missing if evidence.following else ()
        left_out = "".join(f" ({line})" for line in missing if line.startswith(f"{LIMITS}: "))
        reason = f"no claim promises huge pages{left_out}"
        return (Verdict(rule=ID, subject="node", outcome=Outcome.SKIPPED, reason=reason, measures={}),)
    return tuple(_judge(claim, evidence) for claim in asked)


def _judge(claim: Claim, evidence: Evidence) -> Verdict:
    rows = {row.page_bytes: row for row in evidence.hugetlb or () if row.claim == claim.name}
    measures: dict[str, Measure] = {}
    wrong: list[str] = []
    missing: list[str] = []
    for limit in claim.hugepages:
        row = rows.get(limit.page_bytes)
        if row is None or row.limit_bytes is None or row.usage_bytes is None:
            missing.append(f"the hugetlb files of {limit.page_bytes} byte pages were not read (no such controller?)")
        else:
            _compare(limit, row, measures, wrong)
    if claim.mems is not None:
        _nodes(claim, evidence, tuple(rows.values()), measures, wrong, missing)
    verdict = Judgement(ID, claim.name, measures)
    if wrong:
        return verdict(Outcome.FAILED, "; ".join(wrong[:3]))
    if missing:
        unread = all(row.limit_bytes is None and row.usage_bytes is None for row in rows.values())
        if unread and evidence.hugetlb is not None and _passing(claim, evidence):
            reason = "it started or ended in this window, between two readings of its huge pages"
            return verdict(Outcome.SKIPPED, reason)
        return verdict(Outcome.UNDECIDED, missing[0])
    used = sum(row.usage_bytes or 0 for row in rows.values())
    where = f" on {nodes_text(claim.mems)}" if claim.mems is not None else ""
    return verdict(Outcome.PASSED, f"{len(claim.hugepages)} limits stand, {used} bytes are in use{where}")


def _passing(claim: Claim, evidence: Evidence) -> bool:
    """Whether it came or went in this window. A followed pod's own cgroup had the file when it was promised a limit."""
    followed_pod = evidence.following is not None and not claim.kind.carries_tasks
    return followed_pod or view.passing(claim, evidence)


def _compare(limit: HugepageLimit, row: HugetlbUse, measures: dict[str, Measure], wrong: list[str]) -> None:
    name = f"hugepages_{limit.page_bytes // 1024}kb"
    found, used = row.limit_bytes or 0, row.usage_bytes or 0
    measures[f"{name}_limit_bytes"] = found
    measures[f"{name}_used_bytes"] = used
    if row.failures is not None:
        measures[f"{name}_refused_count"] = row.failures
    # The kernel keeps whole pages, and takes what is beyond its counter for no limit.
    kept = limit_in_force(limit.limit_bytes // limit.page_bytes * limit.page_bytes, limit.page_bytes)
    if found != kept:
        shown = "none" if found < 0 else f"{found} bytes"
        wrong.append(f"the limit for {limit.page_bytes} byte pages is {shown}, promised is {limit.limit_bytes}")
    if used > limit.limit_bytes:
        wrong.append(f"{used} bytes of {limit.page_bytes} byte pages are in use, promised are {limit.limit_bytes}")


def _nodes(
    claim: Claim,
    evidence: Evidence,
    rows: tuple[HugetlbUse, ...],
    measures: dict[str, Measure],
    wrong: list[str],
    missing: list[str],
) -> None:
    """Compare where the pages are, by the controller and by the mappings, with the promised nodes."""
    mems = claim.mems or CpuSet()
    reading = next((found for found in evidence.pages or () if found.claim == claim.name), None)
    mapped = {row.node: row.total_bytes for row in (reading.pages if reading else ()) if row.kind is PageKind.HUGE}
    by_node: dict[int, int] = dict(mapped)
    for row in rows:
        for node, used in (row.node_bytes or {}).items():
            by_node[node] = max(by_node.get(node, 0), used)
    for node in sorted(by_node):
        measures[f"hugepages_node{node}_bytes"] = by_node[node]
        if by_node[node] > 0 and node not in mems:
            wrong.append(f"{by_node[node]} bytes of huge pages are on node {node}, promised: {nodes_text(mems)}")
    machine = groups.nodes(evidence)
    alone = machine is not None and len(machine) == 1
    counted = sum(sum((row.node_bytes or {}).values()) for row in rows)
    used = sum(row.usage_bytes or 0 for row in rows)
    # By the controller, or by what processes map; whichever shows more of them.
    shown = max(counted, sum(mapped.values()))
    if shown < used and not alone:
        missing.append(f"on which node {used - shown} of {used} bytes of huge pages are was not read")


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="The limit of each huge page size stands, usage keeps to it, and the pages are on the promised nodes.",
        how=prose("""
            The hugetlb controller's limit and usage of the claim's cgroup are read when the window has closed. A limit
            other than the promised one, or usage above it, is a failure. Where NUMA nodes were promised, huge pages on
            another node are a failure, as the controller counts them (numa_stat) or as a process maps them (numa_maps).
            Missing files, or a kernel without hugetlb, leave it undecided; of a container or a pod of a followed node
            that came or went in the window they are no doubt. On a kubelet's node a pod's own cgroup has a limit, where
            the controller is, and a container only if its runtime was told one (containerd tells none by default).
        """),
        tolerance=prose("""
            None. The kernel rounds a limit down to a multiple of the page size.
        """),
        source=prose("""
            Documentation/admin-guide/cgroup-v2.rst, HugeTLB; cgroup-v1/hugetlb.rst; Kubernetes documentation, Manage
            HugePages and Memory Manager; docs/failures.md F66
        """),
        negative_control="Write another limit behind the claim's back: `echo max > hugetlb.2MB.max`.",
        witnesses=(Witness.FILES,),
        measures=(
            *levels("*_bytes"),
            *amounts("*_refused_count", better=Better.LESS),
        ),
    ),
    check,
)
