"""What an observer did not see in a window, each with the witnesses whose evidence is incomplete by it.

The complete list: what the parts of the observer note themselves (:class:`Blindness`), and what the readings of a
window show (:func:`probes.coverage.window_spots`). Loss that is a number of its own in the coverage (events, map
entries, program runs, switches, CPUs never seen) is not repeated here; ``validators.trust`` weighs both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from probes.node.untraced import Hidden
from toolkit.model.blind_spots import EVERY_WITNESS, BlindSpot, ScanGap, Witness
from toolkit.model.cpuset import CpuSet

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
