"""Rule ``affinity-mask``: every thread's ``Cpus_allowed`` lies within the claim's CPUs."""

from __future__ import annotations

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import Evidence, ThreadMask, Transition
from toolkit.model.evidence.masks import of_each, threads_of
from toolkit.model.measures import amounts, levels, sets, words
from toolkit.model.verdict import Measure, Offender, Outcome, Verdict
from toolkit.text.wording import count
from toolkit.timeline.held import cpus_of
from toolkit.timeline.ran import is_unknown
from validators.queries import hotplug, timeline, view, writers
from validators.rule import Judgement, Rule, RuleDoc, prose
from validators.witness import Witness
from validators.wording import UNBOUND

ID = "affinity-mask"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge the thread masks of every claim that was promised a CPU set."""
    masks = view.by_claim(evidence.thread_masks)
    transitions = view.by_claim(evidence.transitions)
    outside = view.by_claim(row for row in timeline.asked(evidence).rows if row.out_switches or row.out_samples)
    return tuple(
        _judge(
            claim,
            evidence,
            masks.get(claim.name, []),
            transitions.get(claim.name, []),
            CpuSet.of(row.cpu for row in outside.get(claim.name, [])),
        )
        for claim in claims.claims
    )


def _judge(
    claim: Claim, evidence: Evidence, masks: list[ThreadMask], transitions: list[Transition], outside: CpuSet
) -> Verdict:
    if claim.cpus is None:
        return Judgement(ID, claim.name)(Outcome.SKIPPED, "no CPU set was promised")
    if not claim.kind.carries_tasks:
        return Judgement(ID, claim.name)(Outcome.SKIPPED, "no thread is in it itself: its containers' are judged")
    changes = view.mask_changes(claim.name, transitions)
    lent = timeline.lent(evidence).of(claim.name)
    sets = {epoch: view.set_at_epoch(claim, changes, epoch) or claim.cpus for epoch in {mask.epoch for mask in masks}}
    # Most of thousands are what was promised, and the integers are compared at a third of the cost.
    unlike = [(mask, promised) for mask in masks if mask.cpus_allowed.mask != (promised := sets[mask.epoch]).mask]
    wide = [
        (mask, promised)
        for mask, promised in unlike
        if not mask.cpus_allowed <= promised
        and not mask.cpus_allowed <= promised | cpus_of(lent.at(claim.name, mask.first_at_ns))
    ]
    narrow = [mask for mask, promised in unlike if mask.cpus_allowed < promised]
    threads = threads_of(masks)
    measures: dict[str, Measure] = {
        "cpus": str(claim.cpus),
        "threads_count": len(threads),
        "masks_count": sum(len(mask.tids) for mask in masks),
        "scans_count": evidence.coverage.proc_scans,
        "wide_threads_count": len(threads_of(mask for mask, _ in wide)),
        "narrowed_threads_count": len(threads_of(narrow)),
    }
    measures |= view.scan_measures(claim, evidence)
    offenders = [_offender(claim, one, promised) for mask, promised in wide for one in of_each([mask])]
    verdict = Judgement(ID, claim.name, measures, offenders)
    if wide:
        outcome, text = _wide(claim.cpus, evidence, wide, by_mask=claim.by_mask)
        text += _author(claim, evidence, masks, wide, measures) if outcome is Outcome.FAILED else ""
        return verdict(outcome, text + view.older_word(claim, evidence))
    if not masks and view.between_scans(claim, evidence):
        return verdict(Outcome.SKIPPED, "it started or ended in this window, between two readings of its threads")
    if not masks or evidence.coverage.proc_scans <= 0:
        return verdict(Outcome.UNDECIDED, "no thread of it was read: there is no evidence")
    blank = next((mask for mask in masks if not mask.cpus_allowed.mask), None)
    if blank is not None:
        return verdict(Outcome.UNDECIDED, f"the CPUs that thread {blank.tid} ({blank.comm}) may use were not read")
    counted = count(len(threads), "thread")
    narrowed = f", {measures['narrowed_threads_count']} with a narrower mask" if narrow else ""
    allowed = view.ever_allowed(claim, changes)
    before = f" ({allowed} before a change)" if allowed != claim.cpus else ""
    # Each mask was good when it was read, and this rule claims no more. What ran is judged by the ledger's.
    elsewhere = f" at each reading, but a task of it ran on {cpus_text(outside)}: see cpuset-containment"
    between = elsewhere if outside else ""
    return verdict(Outcome.PASSED, f"{counted} within {cpus_text(claim.cpus)}{before}{narrowed}{between}")


def _wide(
    cpus: CpuSet, evidence: Evidence, wide: list[tuple[ThreadMask, CpuSet]], *, by_mask: bool
) -> tuple[Outcome, str]:
    """Judge masks that reach outside: a violation, unless the kernel lent the CPUs or the promise is not known."""
    if by_mask and all(mask.times_seen == 1 for mask, _ in wide):
        where = CpuSet.union(mask.cpus_allowed for mask, _ in wide)
        return Outcome.UNDECIDED, f"threads might run on {where} in one reading: {UNBOUND}"
    if hotplug.is_lent(cpus, (mask for mask, _ in wide), evidence):
        return Outcome.UNDECIDED, f"all that it has, {cpus_text(cpus)}, went offline: the kernel lends the parent's"
    if all(is_unknown(mask.first_at_ns, timeline.lent(evidence)) for mask, _ in wide):
        where = CpuSet.union(mask.cpus_allowed for mask, _ in wide)
        return (
            Outcome.UNDECIDED,
            f"threads may run on {where} since the node was read last: what was promised by then is not known",
        )
    worst, promised = _first(wide)
    wide_count = len(threads_of(mask for mask, _ in wide))
    text = f"thread {worst.tid} ({worst.comm}) may run on {cpus_text(worst.cpus_allowed)}, promised is {promised}"
    return Outcome.FAILED, text + (f"; {wide_count} threads in all" if wide_count > 1 else "")


def _first(wide: list[tuple[ThreadMask, CpuSet]]) -> tuple[ThreadMask, CpuSet]:
    return min(wide, key=lambda pair: (pair[0].first_at_ns, pair[0].tid, pair[0].cpus_allowed.mask))


def _author(
    claim: Claim,
    evidence: Evidence,
    masks: list[ThreadMask],
    wide: list[tuple[ThreadMask, CpuSet]],
    measures: dict[str, Measure],
) -> str:
    """Return what let the first of them reach outside, since it was last read within."""
    mask, promised = _first(wide)
    within = [
        row.last_at_ns
        for row in masks
        if mask.tid in row.tids and row.cpus_allowed <= promised and row.last_at_ns < mask.first_at_ns
    ]
    outside, after_ns = mask.cpus_allowed - promised, max(within, default=writers.EVER_NS)
    return writers.placed(claim, evidence, mask.tid, outside, measures, seen_ns=mask.first_at_ns, after_ns=after_ns)


def _offender(claim: Claim, mask: ThreadMask, promised: CpuSet) -> Offender:
    return Offender(
        claim=claim.name,
        tid=mask.tid,
        comm=mask.comm,
        cpu=(mask.cpus_allowed - promised).first(),
        first_at_ns=mask.first_at_ns,
        total_ns=max(0, mask.last_at_ns - mask.first_at_ns),
        longest_ns=max(0, mask.last_at_ns - mask.first_at_ns),
        switches=0,
    )


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="Every thread of the claim may run only on the claim's CPUs.",
        how=prose("""
            Cpus_allowed of every thread below the claim's cgroup is read from /proc several times a second. On a node
            with hundreds of threads the kernel's list of tasks is read instead, by a BPF program and every few seconds,
            so that reading takes some 0.3 % of a CPU; a thread whose mask is too wide there is read from /proc, and
            so are some others in turn, which must agree with the list. Where the kernel refuses the program, /proc is
            read less often, for at most 0.7 % of a CPU. All threads are read at least one time in each window, and at
            its end if that takes no more than 0.1 s. Each distinct mask is compared with the set that was promised at
            that time. A mask that reaches outside is a failure, even if the thread never
            ran there. The verdict is undecided if no thread was read, or if a mask was first read while all CPUs of the
            claim were offline: the kernel then lends the parent's CPUs. If no mask was too wide although the ledger saw
            a task outside, a mask was wider between two readings; the verdict says where the task ran, and
            `cpuset-containment` judges that.

            The reason ends with what set that mask, wrote the cgroup's set or moved the thread, where the kernel
            reports it.

            A mask narrower than the set is legal and counted apart: a thread may narrow its own mask, and since kernel
            6.2 a change of the cpuset keeps that mask.
        """),
        tolerance=prose("""
            None. Where masks alone bind the threads of a claim (`byMask`, as systemd's CPUAffinity= does), a mask that
            was too wide in a single reading is undecided: a process is bound a moment after it is in the cgroup. Masks
            read while the set was being changed are discarded. A CPU that goes offline is dated up to 0.5 s late. On a
            followed node, CPUs that the next reading promises may have been the claim's since the reading before it, so
            a mask may contain them in between.

            A mask that was too wide for less than `longest_gap_ms`, the longest time between two readings of a thread
            of the claim, may be missed. The rule is undecided if that time exceeds the sum of the pause between two
            scans (200 ms, or 499 times the CPU time of a scan, 139 times where only /proc is read, whichever is
            longer), four times the CPU time of a scan, and 500 ms (our own wait for a CPU on a loaded host).
        """),
        source="Documentation/filesystems/proc.rst; sched_setaffinity(2); docs/facts.md K10, K11, docs/failures.md F49",
        negative_control="Widen the cgroup's cpuset behind the claim's back: `echo 0-1 > cpuset.cpus`.",
        witnesses=(Witness.MASKS,),
        measures=(
            *sets("cpus"),
            *amounts("scans_count"),
            *levels("threads_count", "masks_count", "narrowed_threads_count", "wide_threads_count", "longest_gap_ms"),
            *words("longest_gap_at_ms"),
            *writers.PLACED,
        ),
    ),
    check,
)
