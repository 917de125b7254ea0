"""How much of what happened in a window was seen, and what was not."""

from __future__ import annotations

from probes.actions.reader import Actions
from probes.blindness import gap_spots, hidden_spots
from probes.interrupts.reader import Interrupts
from probes.node.untraced import Hidden
from probes.state import State
from probes.window import Edge, Window
from toolkit.model.blind_spots import EVERY_WITNESS, BlindSpot, ScanGap, Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Coverage
from toolkit.model.interrupts import IrqKind

SLOT_WAIT_NS = 1_000_000_000
"""Slots of CPU time are closed every ``bin_ms``; so much later at most. A quota is followed at the resolution at which
its control file is: about once a second. Our own wait behind 40 runnable tasks of a 3 ms slice, and behind a reader of
the evidence so far, is shorter."""


def coverage(state: State, window: Window, edge: Edge) -> Coverage:
    """Say how much of what happened was seen.

    The kernel's count is read before and after the ledger's own moment, at both ends: the truth lies between
    last.before - first.after and last.after - first.before, and the ledger must lie there too.
    """
    states, first = edge.states, window.first
    least = edge.before.context_switches - first.after.context_switches
    most = edge.after.context_switches - first.before.context_switches
    online = edge.online
    if window.closed:
        judged = sum(one.closed_judged for one in states if one.closed_window == window.number)
        seen = CpuSet.of(cpu for cpu, one in enumerate(states) if one.closed_window == window.number)
    else:
        judged = sum(one.judged for one in states if one.window == window.number)
        seen = CpuSet.of(cpu for cpu, one in enumerate(states) if one.window == window.number)
    hidden = window.hidden or window.untraced(edge)
    gaps = window.masks.gaps(window.all_subjects(), edge.at_ns) if state.options.threads else ()
    softirqs = softirq_count(state, window, edge)
    spots = window_spots(state, window, edge, hidden.threads, gaps, softirqs)
    return Coverage(
        switches_judged=judged,
        switches_kernel=max(least, min(most, (least + most) // 2)),
        switches_skew=(most - least + 1) // 2 + hidden.skew,
        switches_untraced=hidden.switches,
        lost_events=edge.lost - first.lost,
        map_full=edge.full - first.full + window.pieces_dropped + (state.trails.forgotten - window.forgotten),
        missed_runs=edge.missed - first.missed,
        cpus_seen=seen,
        cpus_online=online,
        cpus_unsampled=online - state.sampled,
        sampler_hz=state.options.sampler_hz,
        window_skew_ns=edge.turn_ns,
        witness_skew_ns=sum(end.at_ns + end.turn_ns - end.stats_at_ns for end in (first, edge)),
        proc_scans=window.masks.scans,
        file_readings=window.files.readings,
        file_gap_ns=window.files.gap_ns(edge.at_ns),
        cgroup_moves_dropped=edge.dropped[0] - first.dropped[0],
        affinity_changes_dropped=edge.dropped[1] - first.dropped[1],
        softirqs_judged=softirqs[0],
        softirqs_kernel=softirqs[1],
        softirqs_skew=softirqs[2],
        blind_spots=tuple(dict.fromkeys(spot.text for spot in spots)),
        blindness=spots,
        scan_gaps=gaps,
    )


def window_spots(
    state: State,
    window: Window,
    edge: Edge,
    hidden: tuple[Hidden, ...],
    gaps: tuple[ScanGap, ...],
    softirqs: tuple[int, int, int],
) -> tuple[BlindSpot, ...]:
    """Return everything that was not seen in a window.

    :param hidden: threads that the kernel hides from its tracepoints.
    :param softirqs: judged, by the kernel's count, and how far the two may differ.
    """
    ledger, end_ns = state.ledger, edge.at_ns
    judged, counted, skew = softirqs
    spots = [
        *state.blindness.within(window.start_ns, end_ns),
        *(
            BlindSpot(text=lapse.text, witnesses=EVERY_WITNESS)
            for lapse in state.hotplug.lapses
            if lapse.start_ns <= end_ns and (lapse.end_ns is None or lapse.end_ns >= window.start_ns)
        ),
        *(BlindSpot(text=text, witnesses=(Witness.INTERRUPTS,)) for text in ledger.side(Interrupts).blind_spots),
        *(BlindSpot(text=text) for text in (*ledger.side(Interrupts).accounted, *ledger.blind_spots)),
        *(BlindSpot(text=text, witnesses=(Witness.ACTIONS,)) for text in ledger.side(Actions).blind_spots),
        *hidden_spots(hidden, state.watched, state.claims.pods_root),
        *_unsampled(edge.online - state.sampled),
        *gap_spots(gaps),
        *_slots(window, end_ns, state.options.bin_ms * 1_000_000),
        *(
            BlindSpot(
                text=f"{count} thread masks of {name} were not kept: too many distinct ones",
                witnesses=(Witness.MASKS,),
                claim=name,
            )
            for name, count in sorted(window.masks.dropped.items())
        ),
    ]
    if window.files.dropped:
        text = f"{window.files.dropped} changes of control files were not kept: too many"
        spots.append(BlindSpot(text=text, witnesses=(Witness.FILES,)))
    if counted - judged > skew:
        text = f"{counted - judged} of {counted} softirqs on watched CPUs passed no tracepoint"
        spots.append(BlindSpot(text=text, witnesses=(Witness.INTERRUPTS,), cpus=ledger.side(Interrupts).cpus))
    for what, last, first in zip(
        ("moves between cgroups", "affinity changes"), edge.dropped, window.first.dropped, strict=True
    ):
        if last > first:
            spots.append(BlindSpot(text=f"{last - first} {what} were not told", witnesses=(Witness.ACTIONS,)))
    return tuple(dict.fromkeys(spots))


def _slots(window: Window, end_ns: int, period_ns: int) -> list[BlindSpot]:
    longest_ns, from_ns = window.slots.until(end_ns)
    if longest_ns <= period_ns + SLOT_WAIT_NS:
        return []
    at_ns = max(0, from_ns - window.start_ns)
    return [
        BlindSpot(
            text=f"the observer stood still for {longest_ns / 1e9:.2f} s (from {at_ns / 1e9:.2f} s on): the kernel "
            "counted on and kept its events, but how CPU time was spread in that time is not known",
            witnesses=(Witness.SLOTS,),
            start_at_ns=at_ns,
            end_at_ns=at_ns + longest_ns,
        )
    ]


def _unsampled(cpus: CpuSet) -> list[BlindSpot]:
    # Nothing is missing from the switch ledger: the end of the window cuts the interval of whoever runs there. That
    # a budget for noise needs the sampler is the rule's own matter: it knows these CPUs by their number.
    text = f"CPUs {cpus} carry no sampler: a task that never switches there is seen when the window ends"
    return [BlindSpot(text=text, cpus=cpus)] if cpus else []


def softirq_count(state: State, window: Window, edge: Edge) -> tuple[int, int, int]:
    """Compare the interrupt ledger with the kernel's own count: as for switches the truth lies between two readings.

    Returns what was judged, what the kernel counted, and how far the two may differ.
    """
    interrupts = state.ledger.side(Interrupts)
    (before, after), (last_before, last_after) = window.first.softirqs, edge.softirqs
    cpus = [cpu for cpu in interrupts.cpus if all(cpu in counts for counts in (before, after, last_before, last_after))]
    least = sum(max(0, last_before[cpu] - after[cpu]) for cpu in cpus)
    most = sum(last_after[cpu] - before[cpu] for cpu in cpus)
    rows = interrupts.rows(window.number) or ()
    judged = sum(row.count for row in rows if row.kind is IrqKind.SOFT and row.cpu in cpus) if cpus else 0
    return judged, max(least, (least + most) // 2), (most - least + 1) // 2
