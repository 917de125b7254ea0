"""Control files through a window: both ends and the readings in between, and when they differed from what was promised.

A difference is explained while a planned change of the claim is under way, and while a cgroup that was just made is
being set up. Facts only; the rules say what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, Evidence, Transition
from toolkit.model.runtimes import SETUP_NS
from toolkit.text.wording import first_of
from toolkit.timeline.saved import PLANNED_CAUSES
from validators.queries import cpus_in_time, view
from validators.queries.life import STARTS, Life

GAP_LIMIT_NS = 3 * view.NANOSECONDS
"""Control files are read once a second, or when they are written to; where nothing looked for three times as long, a
change may have been put back unseen."""
SWEPT_LIMIT_NS = 45 * view.NANOSECONDS
"""Where every write is reported, all files are read every 30 s at least (a node with hundreds of claims), and on a busy
machine half of that later."""
Problem = Callable[[CgroupFiles, CpuSet | None], str]
"""What is wrong with a reading, by the CPU set that was promised at its time; empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A stretch of readings with something wrong.

    :param from_ns: the first of them; it may have begun up to one reading earlier, at ``after_ns``.
    :param until_ns: the first reading in which all was well again; ``None``: it was wrong until the end.
    :param sound_before: whether the reading before was right: the file was changed, it had not been late.
    """

    text: str
    after_ns: int
    from_ns: int
    until_ns: int | None
    sound_before: bool

    @property
    def when(self) -> str:
        """When it was so, for people: by the readings, a second or more apart; the file may have been right sooner."""
        until = "the end" if self.until_ns is None else f"{self.until_ns / 1e9:.1f} s"
        return f"as read from {self.from_ns / 1e9:.1f} s to {until}"


def unread_ns(evidence: Evidence) -> int:
    """Return the longest time in which what a control file said may have changed without being read."""
    gap_ns, unwatched_ns = evidence.coverage.file_gap_ns, evidence.coverage.file_unwatched_ns
    if unwatched_ns > 0 and gap_ns <= SWEPT_LIMIT_NS:
        # What changes a file writes to it: that was reported, and then it was read.
        return unwatched_ns
    return gap_ns


def readings(evidence: Evidence, cgroup: str, end_ns: int | None = None) -> list[tuple[int, CgroupFiles]]:
    """Return the distinct readings of a cgroup in order of time since the window opened.

    :param end_ns: when it was gone; ``None``: it outlived the window.
    """
    first, last = view.files_of(evidence.files_before, cgroup), view.files_of(evidence.files_after, cgroup)
    during = [(row.at_ns, row) for row in _between(evidence, cgroup)]
    found = [] if first is None else [(0, first)]
    found += sorted(during, key=lambda entry: entry[0])
    return found if last is None else [*found, (evidence.duration_ns if end_ns is None else end_ns, last)]


def _between(evidence: Evidence, cgroup: str) -> Sequence[CgroupFiles]:
    return view.files_by_cgroup(evidence.files_during).get(cgroup.rstrip("/") or "/", ())


def deviations(life: Life, problem: Problem, cgroup: str = "", *, ends: bool = False) -> tuple[Deviation, ...]:
    """Return when the files were not as promised between the two ends of a claim's life in the window.

    :param cgroup: another one than the claim's own.
    :param ends: also where nothing was read in between: the caller does not judge both ends by themselves.
    """
    cgroup = cgroup or life.claim.cgroup
    if not ends and not any(0 < row.at_ns < life.end_ns for row in _between(life.evidence, cgroup)):
        return ()  # nothing changed in between
    history = readings(life.evidence, cgroup, life.end_ns)
    changes = view.mask_changes(life.claim.name, life.transitions)
    found: list[Deviation] = []
    open_text, opened, after, sound = "", 0, 0, True
    before = 0
    for at_ns, files in history:
        epoch = sum(change.end_at_ns <= at_ns for change in changes)
        promised = cpus_in_time.promised(life, changes, epoch, at_ns, files)
        text = "" if explained(at_ns, life.transitions, changes) else problem(files, promised)
        if text != open_text:
            if open_text:
                found.append(_deviation(open_text, after, opened, at_ns, sound))
            sound = not open_text and at_ns > 0
            open_text, opened, after = text, at_ns, before
        before = at_ns
    if open_text:
        found.append(_deviation(open_text, after, opened, None, sound))
    return tuple(found)


def _deviation(text: str, after: int, opened: int, until: int | None, sound: bool) -> Deviation:
    return Deviation(text=text, after_ns=after, from_ns=opened, until_ns=until, sound_before=sound)


def explained(at_ns: int, transitions: Iterable[Transition], changes: Iterable[Transition]) -> bool:
    """Return whether a change of the claim was under way then, or its cgroup was being set up."""
    return any(change.start_at_ns <= at_ns <= change.end_at_ns for change in changes) or any(
        change.start_at_ns <= at_ns <= change.end_at_ns + SETUP_NS for change in transitions if change.what in STARTS
    )


def lives(transitions: Iterable[Transition]) -> str:
    """Return when the claim's cgroup was deleted and made, for the end of a sentence; empty where neither happened."""
    words = {"cgroup-gone": "deleted", "cgroup-made": "made again"}
    events = sorted(
        (change.start_at_ns, words[change.what])
        for change in transitions
        if change.what in words and change.cause not in PLANNED_CAUSES
    )
    if not events:
        return ""
    shown = [f"{what} at {at_ns / 1e9:.3f} s" for at_ns, what in events]
    return f"; its cgroup was {first_of(shown, 4)}"
