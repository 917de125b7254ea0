"""Rule ``transition-window``: how long each change of a claim took until it held, against a limit."""

from __future__ import annotations

from statistics import median

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, ThreadMask, Transition
from toolkit.model.evidence.masks import of_each
from toolkit.model.measures import Better, Kind, amounts, gated, levels, words
from toolkit.model.verdict import Measure, Offender, Outcome, Verdict
from toolkit.text.wording import count
from toolkit.timeline.held import Timeline, cpus_of
from toolkit.timeline.ran import Ran
from validators.queries import timeline, view
from validators.queries.life import ENDS
from validators.rule import Judgement, Rule, RuleDoc, needs_switches, prose
from validators.witness import Witness

ID = "transition-window"
EVENTS = frozenset({"cgroup-gone", "cgroup-made"})
"""What happened to a cgroup at one moment: no change of a promise that would have to hold."""
SCAN_NS = 700_000_000
"""How long a thread may go unread where that was not measured: the pause between two scans, and our wait for a CPU."""


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that changed while it was watched."""
    changes = view.by_claim(change for change in evidence.transitions if change.what not in EVENTS)
    masks = view.by_claim(evidence.thread_masks)
    ends = view.by_claim(change for change in evidence.transitions if change.what in ENDS)
    changed = [claim for claim in claims.claims if claim.name in changes]
    if not changed:
        reason = "no claim changed in the window"
        return (Verdict(rule=ID, subject="node", outcome=Outcome.SKIPPED, reason=reason, measures={}),)
    return tuple(
        _judge(
            claim,
            claims.transition_limit_ms,
            evidence,
            changes[claim.name],
            masks.get(claim.name, []),
            [end.start_at_ns for end in ends.get(claim.name, [])],
        )
        for claim in changed
    )


def _unread(claim: Claim, changes: list[Transition], masks: list[ThreadMask]) -> list[Transition]:
    """Return changes that took CPUs away, and after which no thread was read."""
    if not claim.kind.carries_tasks:
        return []
    return [
        change
        for epoch, change in enumerate(view.mask_changes(claim.name, changes), start=1)
        if (change.cpus_before or CpuSet()) - (change.cpus_after or CpuSet())
        and not any(mask.epoch >= epoch for mask in masks)
    ]


def _judge(
    claim: Claim,
    limit_ms: float | None,
    evidence: Evidence,
    changes: list[Transition],
    masks: list[ThreadMask],
    ends: list[int],
) -> Verdict:
    planned = view.mask_changes(claim.name, changes)
    lent = timeline.lent(evidence).of(claim.name)
    late = {change: _late_masks(change, epoch, masks, lent) for epoch, change in enumerate(planned, start=1)}
    windows = [(_window_ms(change, late.get(change, [])), change) for change in changes]
    windows.sort(key=lambda entry: (-entry[0], entry[1].start_at_ns, entry[1].what))
    rows = view.by_claim(timeline.asked(evidence).rows).get(claim.name, [])
    measures = _measures(windows, rows, limit_ms)
    offenders: list[Offender] = []
    verdict = Judgement(ID, claim.name, measures, offenders)
    longest, slowest = windows[0]
    if limit_ms is not None and longest > limit_ms:
        stayed = late.get(slowest, [])
        offenders += [_offender(claim, mask, slowest) for mask in stayed]
        straggler = f"; thread {stayed[0].tid} ({stayed[0].comm}) kept the old set" if stayed else ""
        return verdict(
            Outcome.FAILED,
            f"{slowest.what} at {slowest.start_at_ns / 1e9:.3f} s did not hold for {longest:.3f} ms, "
            f"the limit is {limit_ms:g} ms{straggler}",
        )
    backwards = [change for change in changes if change.end_at_ns < change.start_at_ns]
    if backwards:
        return verdict(Outcome.UNDECIDED, f"{backwards[0].what} ended before it began: the times are wrong")
    never = [mask for change in planned for mask in late[change] if not _held_later(mask, masks)]
    if never:
        text = f"thread {never[0].tid} ({never[0].comm}) was never read inside the new set"
        return verdict(Outcome.UNDECIDED, f"{text}: whether the change held is not known")
    unread = _unread(claim, changes, masks)
    # A change at the very end leaves no time to read a thread: without a limit nothing is missed by that.
    allowed_ns = view.scan_allowed_ns(claim, evidence, SCAN_NS)
    lacking = [
        change
        for change in unread
        if not any(end_ns >= change.start_at_ns for end_ns in ends)
        and (limit_ms is not None or evidence.duration_ns - change.end_at_ns > allowed_ns)
    ]
    if lacking:
        first = lacking[0]
        text = f"{first.what} at {first.start_at_ns / 1e9:.3f} s was written in {_written_ms(first):.3f} ms"
        return verdict(Outcome.UNDECIDED, f"{text}; no thread of it was read after it: whether it held is not known")
    if planned and any(row.out_ns or row.out_switches for row in rows):
        return verdict(
            Outcome.UNDECIDED, "it ran outside its set in a window with a change: when that held is not known"
        )
    text = _held(windows, unread)
    if limit_ms is None:
        return verdict(Outcome.PASSED, f"{text} (measured only: no limit was set)")
    return verdict(Outcome.PASSED, f"{text}, the limit is {limit_ms:g} ms")


def _held(windows: list[tuple[float, Transition]], unread: list[Transition]) -> str:
    """Return how long changes took that held, and those after which no thread was read, for people."""
    held = [length for length, change in windows if change not in unread]
    parts = [f"{count(len(held), 'change')} held after at most {max(held):.3f} ms"] if held else []
    if unread:
        was, them = ("was", "it") if len(unread) == 1 else ("were", "them")
        written = f"{count(len(unread), 'change')} {was} written in at most {max(map(_written_ms, unread)):.3f} ms"
        parts.append(f"{written}, and no thread was read after {them}")
    return "; ".join(parts)


def _measures(windows: list[tuple[float, Transition]], rows: list[Ran], limit_ms: float | None) -> dict[str, Measure]:
    """:param windows: how long each change took, the longest first."""
    lengths = [length for length, _ in windows]
    measures: dict[str, Measure] = {
        "transitions_count": len(windows),
        "longest_ms": lengths[0],
        "median_ms": median(lengths),
        "transition_ns": sum(row.transition_ns for row in rows),
        "transition_switches": sum(row.transition_switches for row in rows),
    }
    if limit_ms is not None:
        measures["limit_ms"] = limit_ms
    for length, change in windows:
        key = f"{change.what}_longest_ms"
        measures[key] = max(length, float(measures.get(key, 0.0)))
    return measures


def _late_masks(change: Transition, epoch: int, masks: list[ThreadMask], lent: Timeline) -> list[ThreadMask]:
    """Masks read after the change was complete that still reach outside the new set, the longest-lived first.

    :param lent: what the claim had been given before that was known here: the next change, that is, and not late.
    """
    held = change.cpus_after
    wide = of_each(
        mask
        for mask in masks
        if mask.epoch == epoch
        and held is not None
        and not mask.cpus_allowed <= held
        and not mask.cpus_allowed <= held | cpus_of(lent.at(change.claim, mask.first_at_ns))
    )
    return sorted(wide, key=lambda mask: (-mask.last_at_ns, mask.tid, str(mask.cpus_allowed)))


def _held_later(late: ThreadMask, masks: list[ThreadMask]) -> bool:
    """Return whether the same thread was read with another mask of that epoch, or a later one, afterwards."""
    return any(
        mask.pid == late.pid
        and late.tid in mask.tids
        and mask.epoch >= late.epoch
        and mask.last_at_ns > late.last_at_ns
        for mask in masks
    )


def _written_ms(change: Transition) -> float:
    return _window_ms(change, [])


def _window_ms(change: Transition, late: list[ThreadMask]) -> float:
    ends = [change.end_at_ns, *(mask.last_at_ns for mask in late[:1])]
    return max(0, max(ends) - change.start_at_ns) / 1e6


def _offender(claim: Claim, mask: ThreadMask, change: Transition) -> Offender:
    outside = mask.cpus_allowed - change.cpus_after if change.cpus_after is not None else mask.cpus_allowed
    lasted = max(0, mask.last_at_ns - change.start_at_ns)
    return Offender(
        claim=claim.name,
        tid=mask.tid,
        comm=mask.comm,
        cpu=outside.first(),
        first_at_ns=change.start_at_ns,
        total_ns=lasted,
        longest_ns=lasted,
        switches=0,
    )


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="Each change of a claim (create, shrink, grow, resize, restart, delete) held within the limit.",
        how=prose("""
            A change begins when its first file is written. It holds from the later of two moments on: the last file was
            written and read back; no thread mask read afterwards reaches outside the new set.

            With transitionLimitMs a longer transition is a failure; without it transitions are measured only. A claim
            that changed and ran outside its set in the same window is undecided: it is not known whether the time
            outside is a change that did not hold or an escape (`cpuset-containment` fails). A change that took CPUs
            away is undecided if no thread was read after it, unless the claim or its cgroup ended. Without a limit, a
            change at the window's end after which no thread could be read passes, and the reason names it.
        """),
        tolerance=prose("""
            None. Begin and end are read from one clock (CLOCK_MONOTONIC). A mask is known only when it is read, so the
            true transition may be longer than measured by up to one scan of /proc.
        """),
        source="docs/principles.md (epochs); docs/facts.md K12, docs/failures.md F1, F5, F8, F65",
        negative_control="Let a thread keep the old CPUs after the set has shrunk, longer than the limit.",
        witnesses=(Witness.SWITCHES, Witness.MASKS),
        measures=(
            *amounts("transitions_count", "transition_switches", "transition_ns"),
            *gated("longest_ms", Kind.LEVEL, Better.LESS, relative=1.0, absolute=20),
            *levels("*_longest_ms", better=Better.LESS),
            *words("median_ms", "limit_ms"),
        ),
    ),
    check,
    needs=needs_switches,
)
