"""What the evidence should say and does not, where no blind spot says why: parts that are missing from a whole.

Whatever observes names what was not seen. Here the numbers themselves are asked, so that a hole that nothing named
leaves nothing passed either. Each is an absence: it takes a ``passed`` away, and proves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import Evidence, UsageBin
from validators.credibility.agreement import ROWLESS_RUN_NS, Disagreement
from validators.credibility.bounds import CLOCK_SLACK_NS, CLOCK_SLACK_RATIO, longest_ns
from validators.queries import view
from validators.witness import Witness
from validators.wording import plural

SLOTS_RATIO = 0.05
SLOTS_AT_EDGES = 2
"""A slot is closed by our own clock, beside the window: the first and the last may have time of outside of it."""


def uncounted(claims: ClaimSet, evidence: Evidence) -> tuple[Disagreement, ...]:
    """Return what is missing, in a fixed order."""
    return (
        *_online(evidence),
        *_steal(evidence),
        *_softirqs(evidence),
        *_scans(claims, evidence),
        *_counters(claims, evidence),
        *_slots(claims, evidence),
    )


def _online(evidence: Evidence) -> Iterator[Disagreement]:
    """Which CPUs are online is read twice; one that went or came between is an event."""
    first, last = evidence.environment.cpus_online, evidence.coverage.cpus_online
    unexplained = (first ^ last) - CpuSet.of(event.cpu for event in evidence.hotplug)
    if first and last and unexplained:
        text = f"{cpus_text(unexplained)} went or came, by two readings of which are online, and no event says when"
        yield Disagreement(claim=None, text=text, witnesses=tuple(Witness))


def _steal(evidence: Evidence) -> Iterator[Disagreement]:
    """A hypervisor cannot take more than there is; what is allowed for it then would be anything."""
    cpus = len(view.online(evidence))
    most_ns = longest_ns(evidence)
    if cpus and view.steal_ns(evidence) > most_ns * cpus:
        text = f"steal of {view.steal_ns(evidence) / 1e9:.1f} s on {plural(cpus, 'CPU', 'CPUs')} cannot be"
        yield Disagreement(claim=None, text=text, witnesses=(Witness.SWITCHES, Witness.BANDWIDTH))
    beyond = [cpu for cpu, ns in sorted((evidence.steal_by_cpu_ns or {}).items()) if ns > most_ns]
    if beyond:
        text = f"the steal of CPU {beyond[0]} is longer than the window"
        yield Disagreement(claim=None, text=text, witnesses=(Witness.SWITCHES,))


def _softirqs(evidence: Evidence) -> Iterator[Disagreement]:
    coverage = evidence.coverage
    difference = coverage.softirqs_judged - coverage.softirqs_kernel
    named = any(Witness.INTERRUPTS in spot.witnesses for spot in coverage.blindness)
    if not named and abs(difference) > max(0, coverage.softirqs_skew):
        text = f"{coverage.softirqs_judged} softirqs judged of {coverage.softirqs_kernel} that the kernel counted"
        yield Disagreement(claim=None, text=text, witnesses=(Witness.INTERRUPTS,))


def _scans(claims: ClaimSet, evidence: Evidence) -> Iterator[Disagreement]:
    spots = [spot.claim for spot in evidence.coverage.blindness if Witness.MASKS in spot.witnesses]
    known = {claim.name for claim in claims.claims}
    late = (gap for gap in evidence.coverage.scan_gaps if gap.longest_ns > gap.allowed_ns)
    for gap in sorted(late, key=lambda gap: gap.claim):
        if gap.claim in known and not {gap.claim, None} & set(spots):
            text = f"{gap.claim}: its threads were not read for {gap.longest_ns / 1e9:.2f} s"
            yield Disagreement(claim=gap.claim, text=text, witnesses=(Witness.MASKS,))


def _counters(claims: ClaimSet, evidence: Evidence) -> Iterator[Disagreement]:
    """A cgroup that was there all the time was read over all of it: at both ends, before the ledger each time."""
    skew_ns = max(0, evidence.coverage.witness_skew_ns)
    least_ns = evidence.duration_ns * (1 - CLOCK_SLACK_RATIO) - CLOCK_SLACK_NS - skew_ns
    changed = {change.claim for change in evidence.transitions}
    rows = view.by_claim(evidence.bandwidth)
    for claim in claims.claims:
        short = [row for row in rows.get(claim.name, ()) if row.lives == 1 and row.window_ns < least_ns]
        if short and claim.name not in changed:
            read_s, whole_s = short[0].window_ns / 1e9, evidence.duration_ns / 1e9
            text = f"{claim.name}: the counters of {short[0].cgroup} are of {read_s:.1f} s of {whole_s:.1f} s"
            yield Disagreement(claim=claim.name, text=text, witnesses=(Witness.BANDWIDTH,))


def _slots(claims: ClaimSet, evidence: Evidence) -> Iterator[Disagreement]:
    """What a claim ran is in its slots, too: those of a claim with a quota are judged."""
    limited = [claim for claim in claims.claims if claim.quota_us is not None and claim.quota_us >= 0]
    if not limited:
        return
    ran: Counter[str] = Counter()
    for row in evidence.cpu_use:
        ran[row.claim] += row.run_ns
    rows = view.by_claim(evidence.usage_bins)
    slotted = Counter({name: sum(entry.usage_ns for entry in slots) for name, slots in rows.items()})
    length_ns = max((0, *(entry.length_ns for entry in evidence.usage_bins)))
    carrying = {claim.name for claim in claims.claims if claim.kind.carries_tasks}
    for claim in limited:
        for name in sorted(view.covered(claim, claims) & carrying):
            # What ran in a claim below is in the slots of both.
            most_ns = ran[name] + sum(ran[inner] for inner in view.nested(claims).get(name, ()))
            # Of a claim whose quota is new in a window of long slots its own are short.
            own_ns = max((entry.length_ns for entry in rows.get(name, ())), default=length_ns)
            allowed_ns = SLOTS_RATIO * most_ns + CLOCK_SLACK_NS + SLOTS_AT_EDGES * min(own_ns, most_ns)
            none = ran[name] >= ROWLESS_RUN_NS and name not in rows
            if none or not ran[name] - allowed_ns <= slotted[name] <= most_ns + allowed_ns:
                spent = f"{ran[name] / 1e6:.1f} ms of CPU time, {slotted[name] / 1e6:.1f} ms in slots"
                yield Disagreement(claim=claim.name, text=f"{name}: {spent}", witnesses=(Witness.SLOTS,))
            elif _overlap(rows.get(name, []), evidence):
                text = f"{name}: its slots overlap, or lie outside the window"
                yield Disagreement(claim=claim.name, text=text, witnesses=(Witness.SLOTS,))


def _overlap(slots: list[UsageBin], evidence: Evidence) -> bool:
    """Slots follow one another: of times that overlap no stretch can be judged."""
    end_ns = 0
    for entry in sorted(slots, key=lambda entry: entry.start_at_ns):
        if entry.start_at_ns < end_ns:
            return True
        end_ns = entry.start_at_ns + entry.length_ns
    return end_ns > longest_ns(evidence)
