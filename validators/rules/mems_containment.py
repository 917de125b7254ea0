"""Rule ``mems-containment``: threads may allocate only on the claim's NUMA nodes; their own pages are only there."""

from __future__ import annotations

from toolkit.model.claim_changes import ClaimChange, versions
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet, nodes_text
from toolkit.model.evidence import Evidence, ThreadMask
from toolkit.model.evidence.masks import threads_of
from toolkit.model.measures import levels, words
from toolkit.model.placement import PageKind, PageReading, PageUse
from toolkit.model.verdict import Measure, Outcome, Verdict
from toolkit.text.wording import count
from validators.placement import groups
from validators.queries import in_time, view
from validators.queries.promised_anew import renewed
from validators.rule import Judgement, Rule, RuleDoc, prose
from validators.witness import Witness

ID = "mems-containment"
JUDGED = (PageKind.ANON, PageKind.HEAP, PageKind.STACK, PageKind.HUGE)
"""Pages of the process itself. A file's page lies where its first reader put it."""
NOT_READ = "no thread of it was read: where it may allocate is not known"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised NUMA nodes, at some time of the window."""
    # No thread is in a pod's own cgroup itself: those of its containers are judged.
    every = ((claim, versions(claims, claim)) for claim in claims.claims if claim.kind.carries_tasks)
    asked = [(claim, promised) for claim, promised in every if any(one.claim.mems is not None for one in promised)]
    if not asked:
        reason = "no claim promises NUMA nodes"
        return (Verdict(rule=ID, subject="node", outcome=Outcome.SKIPPED, reason=reason, measures={}),)
    masks = view.by_claim(evidence.thread_masks)
    pages = {reading.claim: reading for reading in evidence.pages or ()}
    return tuple(
        _judge(claim, promised, evidence, masks.get(claim.name, []), pages.get(claim.name)) for claim, promised in asked
    )


def _wide(mask: ThreadMask, promised: tuple[ClaimChange, ...]) -> bool:
    """Return whether a mask reaches outside what was promised when it was read last: a life that began within the
    window may have other nodes than the one before.
    """
    now = [one.claim for one in promised if one.at_ns <= mask.last_at_ns][-1:]
    if now and now[0].mems is None:
        return False
    then = [one.mems for one in in_time.promised_at(mask.last_at_ns, promised) if one.mems is not None]
    return not any(mask.mems_allowed <= mems for mems in then)


def _judge(
    claim: Claim,
    promised: tuple[ClaimChange, ...],
    evidence: Evidence,
    masks: list[ThreadMask],
    reading: PageReading | None,
) -> Verdict:
    """Judge a claim. :param promised: what it was through the window, in order."""
    mems = next((one.claim.mems for one in reversed(promised) if one.claim.mems is not None), CpuSet())
    own = [row for row in (reading.pages if reading else ()) if row.kind in JUDGED]
    measures: dict[str, Measure] = {
        "mems": str(mems),
        "threads_count": len(threads_of(masks)),
        "processes_count": reading.processes if reading else 0,
        "own_bytes": sum(row.total_bytes for row in own),
        "file_bytes": sum(row.total_bytes for row in (reading.pages if reading else ()) if row.kind is PageKind.FILE),
    }
    joining = reading.joining if reading else 0
    if joining:
        measures["joining_processes_count"] = joining
    measures |= view.scan_measures(claim, evidence)
    for row in sorted(own, key=lambda row: (row.kind, row.node)):
        if row.node not in mems:
            measures[f"{row.kind}_on_node{row.node}_bytes"] = row.total_bytes
    verdict = Judgement(ID, claim.name, measures)
    wide = [mask for mask in masks if _wide(mask, (*promised, *renewed(claim, evidence)))]
    if wide:
        worst = min(wide, key=lambda mask: (mask.first_at_ns, mask.tid, str(mask.mems_allowed)))
        then = [one.claim.mems for one in promised if one.claim.mems and one.at_ns <= worst.last_at_ns]
        text = f"thread {worst.tid} ({worst.comm}) may use memory of {nodes_text(worst.mems_allowed)}"
        return verdict(Outcome.FAILED, f"{text}, promised is {then[-1] if then else mems}")
    outside = [row for row in own if row.node not in mems and row.total_bytes > 0]
    if outside and claim.mems is not None:
        return verdict(Outcome.FAILED, _where(outside, mems))
    if not masks and view.between_scans(claim, evidence):
        return verdict(Outcome.SKIPPED, "it started or ended in this window, between two readings of its threads")
    if not masks or evidence.coverage.proc_scans <= 0:
        return verdict(Outcome.UNDECIDED, NOT_READ)
    blank = next((mask for mask in masks if not mask.mems_allowed), None)
    if blank is not None:
        return verdict(Outcome.UNDECIDED, f"the nodes that thread {blank.tid} ({blank.comm}) may use were not read")
    machine = groups.nodes(evidence)
    if machine is not None and len(machine) == 1 and CpuSet.of(machine) == mems:
        return verdict(Outcome.PASSED, f"node {mems} is the machine's only one")
    if claim.mems is None:
        seen = any(one.mems for mask in masks for one in in_time.promised_at(mask.first_at_ns, promised))
        text = f"all thread masks on {nodes_text(mems)}, as long as these were promised"
        return verdict(Outcome.PASSED if seen else Outcome.UNDECIDED, text if seen else NOT_READ)
    return verdict(*_kept(claim, mems, evidence, reading))


def _kept(claim: Claim, mems: CpuSet, evidence: Evidence, reading: PageReading | None) -> tuple[Outcome, str]:
    """Decide where masks and pages were within the nodes: were the pages read?"""
    own = [row for row in (reading.pages if reading else ()) if row.kind in JUDGED]
    passing = view.passing(claim, evidence)
    if evidence.picture is not None:
        return (
            Outcome.SKIPPED,
            f"all thread masks on {nodes_text(mems)}; one reading of the node does not show where pages are",
        )
    if evidence.pages is not None and passing and (reading is None or not (reading.processes or reading.unread)):
        # Pages are read at a window's end, of what runs then.
        reason = "it started or ended in this window, between two readings of its pages"
        return (Outcome.SKIPPED, f"{reason}; all thread masks on {nodes_text(mems)}")
    if evidence.pages is None or reading is None:
        return (Outcome.UNDECIDED, "where its pages are was not read")
    if not own:
        return (Outcome.UNDECIDED, "no resident page of it was found: there is no evidence")
    if reading.unread:
        return (
            Outcome.UNDECIDED,
            f"the pages of {reading.unread} of its processes were not read (other users' need CAP_SYS_PTRACE)",
        )
    amount = f"{sum(row.total_bytes for row in own) / 1e6:.1f} MB of {reading.processes} processes"
    beside = f"; {count(reading.joining, 'process', 'processes')} of a runtime not counted" if reading.joining else ""
    return (Outcome.PASSED, f"{amount} and all thread masks on {nodes_text(mems)}{beside}")


def _where(outside: list[PageUse], mems: CpuSet) -> str:
    worst = max(outside, key=lambda row: (row.total_bytes, -row.node, row.kind))
    total = sum(row.total_bytes for row in outside)
    return (
        f"{total} bytes are outside {nodes_text(mems)}: {worst.total_bytes} {worst.kind} on node {worst.node}, "
        f"most of them of process {worst.pid} ({worst.comm})"
    )


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="Mems_allowed of every thread lies within the claim's NUMA nodes, and so do the processes' own pages.",
        how=prose("""
            Mems_allowed of every thread below the claim's cgroup is read from /proc several times a second; a mask that
            reaches outside what was promised by then is a failure (a container that is made again within the window may
            have other nodes). When the window has closed, the resident pages of every process are read from
            numa_maps, by kind: anonymous, heap, stack and huge pages on another node are a failure, even if they were
            touched before the process joined the cgroup.

            Pages of files and shared memory are counted but not judged: their first user placed them. On a machine with
            one node no page can be on another. If pages or masks were not read the verdict is undecided; on a followed
            node it is skipped if the container started or ended in the window.
        """),
        tolerance=prose("""
            None for pages of a workload. Pages on other nodes are counted but not judged for a process with a runtime's
            name that began less than 12 s ago: memory that it allocated before it joined the cgroup is freed when it
            executes the container's program. Masks between two scans of a thread: see affinity-mask.
        """),
        source=prose("""
            proc(5), numa_maps; cpuset(7); Kubernetes documentation, Memory Manager; docs/failures.md F66
        """),
        negative_control=prose("""
            Widen the nodes behind the claim's back, `echo 0-1 > cpuset.mems`, and touch memory there: `numactl -m 1`.
        """),
        witnesses=(Witness.MASKS,),
        measures=(
            *levels("threads_count", "processes_count", "joining_processes_count", "*_bytes", "longest_gap_ms"),
            *words("mems", "longest_gap_at_ms"),
        ),
    ),
    check,
)
