"""What an observer did not see in a window, each with the witnesses whose evidence is incomplete by it.

The complete list: what the parts of the observer note themselves (:class:`Blindness`), and what the readings of a
window show (:func:`window_spots`). Loss that is a number of its own in the coverage (events, map entries, program runs,
switches, CPUs never seen) is not repeated here; ``validators.trust`` weighs both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probes.sampling.untraced import Hidden
from toolkit.model.blind_spots import EVERY_WITNESS, BlindSpot, ScanGap, Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.interrupts import IrqKind

if TYPE_CHECKING:
    from probes.observer import Observer
    from probes.window import Edge, Window

SLOT_WAIT_NS = 1_000_000_000
"""Slots of CPU time are closed every ``bin_ms``; so much later at most. A quota is followed at the resolution at which
its control file is: about once a second. Our own wait behind 40 runnable tasks of a 3 ms slice, and behind a reader of
the evidence so far, is shorter."""
SAME_NS = 1_000_000_000
MAX_NOTES = 256
MAX_GAPS = 8
"""Claims of which a gap is told by name; more are told together."""


@dataclass(slots=True)
class _Note:
    text: str
    witnesses: tuple[Witness, ...]
    start_ns: int | None
    end_ns: int | None


class Blindness:
    """What the parts of an observer noted while it watched; any thread may note."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes: list[_Note] = []

    def note(self, text: str, witnesses: Iterable[Witness], start_ns: int | None, end_ns: int | None) -> None:
        """Note something. ``start_ns``, ``end_ns``: CLOCK_MONOTONIC; ``None``: from ever, for ever."""
        kinds = tuple(witnesses)
        with self._lock:
            for old in self._notes:
                if (old.text, old.witnesses) == (text, kinds) and _touch(old, start_ns):
                    old.end_ns = None if old.end_ns is None or end_ns is None else max(old.end_ns, end_ns)
                    return
            if len(self._notes) >= MAX_NOTES:
                # Too many kinds of trouble to tell apart: what is left is that there was trouble.
                text, kinds, last = "more went wrong than could be noted", EVERY_WITNESS, self._notes[-1]
                if last.text == text:
                    last.start_ns = None if last.start_ns is None or start_ns is None else min(last.start_ns, start_ns)
                    last.end_ns = None if last.end_ns is None or end_ns is None else max(last.end_ns, end_ns)
                    return
            self._notes.append(_Note(text, kinds, start_ns, end_ns))

    def within(self, start_ns: int, end_ns: int) -> tuple[BlindSpot, ...]:
        """Return what concerns a window, with times since it opened."""
        with self._lock:
            return tuple(
                BlindSpot(
                    text=note.text,
                    witnesses=note.witnesses,
                    start_at_ns=None if note.start_ns is None else max(0, note.start_ns - start_ns),
                    end_at_ns=None if note.end_ns is None else max(0, min(note.end_ns, end_ns) - start_ns),
                )
                for note in self._notes
                if (note.start_ns is None or note.start_ns <= end_ns)
                and (note.end_ns is None or note.end_ns >= start_ns)
            )

    def forget(self, before_ns: int) -> None:
        """Drop what ended before a moment."""
        with self._lock:
            self._notes = [note for note in self._notes if note.end_ns is None or note.end_ns >= before_ns]


def _touch(old: _Note, start_ns: int | None) -> bool:
    if old.end_ns is None:
        return True
    return start_ns is not None and start_ns - old.end_ns <= SAME_NS


def window_spots(
    observer: Observer, window: Window, edge: Edge, gaps: tuple[ScanGap, ...], softirqs: tuple[int, int, int]
) -> tuple[BlindSpot, ...]:
    """Return everything that was not seen in a window.

    :param softirqs: judged, by the kernel's count, and how far the two may differ.
    """
    ledger, end_ns = observer.ledger, edge.at_ns
    hidden = window.hidden or window.untraced(edge)
    judged, counted, skew = softirqs
    spots = [
        *observer.blindness.within(window.start_ns, end_ns),
        *(
            BlindSpot(text=lapse.text, witnesses=EVERY_WITNESS)
            for lapse in observer.hotplug.lapses
            if lapse.start_ns <= end_ns and (lapse.end_ns is None or lapse.end_ns >= window.start_ns)
        ),
        *(BlindSpot(text=text, witnesses=(Witness.INTERRUPTS,)) for text in ledger.interrupts.blind_spots),
        *(BlindSpot(text=text) for text in (*ledger.interrupts.accounted, *ledger.blind_spots)),
        *(BlindSpot(text=text, witnesses=(Witness.ACTIONS,)) for text in ledger.actions.blind_spots),
        *hidden_spots(hidden.threads, observer.watched, observer.claims.pods_root),
        *_unsampled(edge.online - observer.sampled),
        *gap_spots(gaps),
        *_slots(window, end_ns, observer.options.bin_ms * 1_000_000),
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
        spots.append(BlindSpot(text=text, witnesses=(Witness.INTERRUPTS,), cpus=ledger.interrupts.cpus))
    for what, last, first in zip(
        ("moves between cgroups", "affinity changes"), edge.dropped, window.first.dropped, strict=True
    ):
        if last > first:
            spots.append(BlindSpot(text=f"{last - first} {what} were not told", witnesses=(Witness.ACTIONS,)))
    return tuple(dict.fromkeys(spots))


def hidden_spots(threads: tuple[Hidden, ...], watched: CpuSet, pods_root: str | None) -> list[BlindSpot]:
    """Say whose evidence threads are missing in that the kernel hides from its tracepoints.

    They have no claim, and the kernel's own count of their switches accounts for the switch count. What remains is
    where they ran: on a watched CPU they would have been told, if their mask allows one. One in the pods' cgroup, or
    one that is gone, may be a pod's.
    """
    root = None if pods_root is None else "/" + pods_root.strip("/")
    weak: dict[tuple[Witness, ...], list[str]] = {}
    for thread in threads:
        kinds: tuple[Witness, ...] = ()
        if watched and (thread.cpus is None or thread.cpus & watched):
            foreign = thread.cgroup is None or (root is not None and (thread.cgroup + "/").startswith(root + "/"))
            kinds = (Witness.SWITCHES, Witness.SYSTEM_TASKS) if foreign else (Witness.SYSTEM_TASKS,)
        weak.setdefault(kinds, []).append(thread.name)
    return [
        BlindSpot(
            text=f"this kernel hides threads from its tracepoints: {', '.join(names[:8])}"
            + (f" and {len(names) - 8} more" if len(names) > 8 else "")
            + ("" if kinds else " (their switches are counted from /proc, and no watched CPU is theirs)"),
            witnesses=kinds,
            cpus=watched if kinds else None,
        )
        for kinds, names in sorted(weak.items())
    ]


def gap_spots(gaps: tuple[ScanGap, ...]) -> list[BlindSpot]:
    """Name the claims whose threads went unread for longer than the stated resolution."""
    late = sorted(
        (gap for gap in gaps if gap.longest_ns > gap.allowed_ns), key=lambda gap: (-gap.longest_ns, gap.claim)
    )
    together = len(late) > MAX_GAPS
    return [
        BlindSpot(
            text=f"thread masks of {f'{len(late)} claims' if together else gap.claim} were not read for "
            f"{gap.longest_ns / 1e9:.2f} s (from {gap.at_ns / 1e9:.2f} s on; stated: {gap.allowed_ns / 1e9:.2f} s)",
            witnesses=(Witness.MASKS,),
            claim=None if together else gap.claim,
            start_at_ns=gap.at_ns,
            end_at_ns=gap.at_ns + gap.longest_ns,
        )
        for gap in (late[:1] if together else late)
    ]


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


def softirq_count(observer: Observer, window: Window, edge: Edge) -> tuple[int, int, int]:
    """Compare the interrupt ledger with the kernel's own count: as for switches the truth lies between two readings.

    Returns what was judged, what the kernel counted, and how far the two may differ.
    """
    interrupts = observer.ledger.interrupts
    (before, after), (last_before, last_after) = window.first.softirqs, edge.softirqs
    cpus = [cpu for cpu in interrupts.cpus if all(cpu in counts for counts in (before, after, last_before, last_after))]
    least = sum(max(0, last_before[cpu] - after[cpu]) for cpu in cpus)
    most = sum(last_after[cpu] - before[cpu] for cpu in cpus)
    rows = interrupts.rows(window.number) or ()
    judged = sum(row.count for row in rows if row.kind is IrqKind.SOFT and row.cpu in cpus) if cpus else 0
    return judged, max(least, (least + most) // 2), (most - least + 1) // 2
