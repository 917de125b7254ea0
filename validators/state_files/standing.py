"""For how long what is wrong with a state file has stood: what a kubelet at work repairs itself is no fault.

A kubelet saves in two steps: whatever reads between them finds half of a change. What is wrong for longer is wrong,
whatever else changed meanwhile, whether it was repaired before the window ended or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from toolkit.model.state_files import StateReading
from validators.queries import view
from validators.state_files.problem import Problem
from validators.wording import seconds

LASTS_NS = 5 * view.NANOSECONDS
"""What is wrong for so long, in each reading of that time, is no moment between two saves. A save writes and syncs one
small file: milliseconds, on a disk that others keep busy a second or two. A node is read each 2 s, a large one each 6.
Source: Kubernetes pkg/kubelet/util/store/filestore.go, ``writeFile``.
"""
Ask = Callable[[StateReading], Sequence[Problem]]
"""What is wrong with the file of a reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A part of what is wrong that stands on. :param text: what was said when it began."""

    text: str
    since_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasted:
    """What was wrong in each reading of some time. :param over: it is not so in the last reading."""

    text: str
    length_ns: int
    over: bool

    def __str__(self) -> str:
        """Say for how long."""
        return f"{self.text} (for {seconds(self.length_ns)}{', then no more' if self.over else ''})"


def _parts(readings: Sequence[StateReading], ask: Ask) -> Iterator[tuple[int, dict[str, _Part]]]:
    """Yield the time of each reading, and what stands by then."""
    open_: dict[str, _Part] = {}
    for reading in readings:
        at_ns = reading.at_ns
        open_ = {
            mark: open_.get(mark, _Part(text=one.text, since_ns=at_ns)) for one in ask(reading) for mark in one.marks
        }
        yield at_ns, open_


def lasted(readings: Sequence[StateReading], ask: Ask, bound_ns: int = LASTS_NS) -> list[Lasted]:
    """Return what was wrong for so long. :param readings: in order of time.

    What was over before the window is of the one before.
    """
    found: dict[str, int] = {}
    now: set[str] = set()
    for at_ns, parts in _parts(readings, ask):
        now = {one.text for one in parts.values()}
        for one in parts.values():
            if at_ns >= 0 and at_ns - one.since_ns >= bound_ns:
                found[one.text] = max(found.get(one.text, 0), at_ns - one.since_ns)
    return [Lasted(text=text, length_ns=length_ns, over=text not in now) for text, length_ns in found.items()]


def wrong_since(readings: Sequence[StateReading], ask: Ask) -> int:
    """Return the time of the first reading since which something was wrong, in each up to the last that was."""
    since_ns, wrong = readings[-1].at_ns, False
    for reading in readings:
        before, wrong = wrong, bool(ask(reading))
        since_ns = reading.at_ns if wrong and not before else since_ns
    return since_ns


def still_wrong(readings: Sequence[StateReading], ask: Ask, *, later: bool) -> tuple[list[str], list[str]]:
    """Return what is wrong in the last reading: what is a fault, and what may be a moment's.

    :param later: whether others may have come before and will come after, as of a node that is followed: a single
        reading is all that anything knows of its file.
    """
    *_, (at_ns, parts) = _parts(readings, ask)
    known = later or len(readings) > 1
    faults, moments = list[str](), list[str]()
    for one in ask(readings[-1]):
        since_ns = min(parts[mark].since_ns for mark in one.marks)
        if one.passing and known and at_ns - since_ns < LASTS_NS:
            moments.append(f"{one.text} (for {seconds(at_ns - since_ns)} by now, which may be between two saves)")
        else:
            faults.append(one.text)
    return faults, moments


def passing_count(readings: Sequence[StateReading], ask: Ask) -> int:
    """Return how many things were wrong in the window that are not so in its last reading."""
    said = [{one.text for one in ask(reading)} for reading in readings if reading.at_ns >= 0]
    return len(set().union(*said) - said[-1]) if said else 0
