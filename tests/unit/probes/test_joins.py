"""What an undecided interval was: transition where the word of joining follows, violation where none does."""

from __future__ import annotations

import pytest

from probes.joins import KEEP_NS, JoinLog, Resolution
from probes.records import DETAIL_JOIN_PROCESS, DETAIL_JOIN_THREAD, Detail, Offence

MS = 1_000_000


def joined(at_ns: int, tid: int = 10, tgid: int = 10, ident: int = 1, kind: int = DETAIL_JOIN_PROCESS) -> Detail:
    return Detail(at_ns, at_ns, 0, kind, 0, ident, tid, tgid, 0, 0, 0, b"")


def outside(first_ns: int, last_ns: int, tgid: int = 10, ident: int = 1) -> Offence:
    return Offence(1, last_ns - first_ns, last_ns - first_ns, first_ns, last_ns, 7, tgid, ident, b"x")


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        pytest.param(joined(2000), Resolution.TRANSITION, id="leader-joined-after-the-interval"),
        pytest.param(joined(1999), Resolution.VIOLATION, id="joined-before-its-end"),
        pytest.param(joined(3000, ident=2), Resolution.VIOLATION, id="joined-another-claim"),
        pytest.param(joined(3000, tgid=11, tid=11), Resolution.VIOLATION, id="another-process-joined"),
        pytest.param(joined(3000, tid=12, kind=DETAIL_JOIN_THREAD), Resolution.TRANSITION, id="this-thread-joined"),
        pytest.param(joined(3000, tid=10, kind=DETAIL_JOIN_THREAD), Resolution.VIOLATION, id="another-thread-joined"),
    ],
)
def test_joining_of_the_process_or_the_thread_decides(join: Detail, expected: Resolution) -> None:
    """Threads go with their leader's event; a thread's own event is about that thread alone."""
    log = JoinLog()
    log.add(join)

    assert log.resolve(12, outside(1000, 2000), 10_000 * MS, 75 * MS) is expected


def test_young_interval_waits() -> None:
    """The kernel tells after it has moved everybody: nothing is decided before the patience is over."""
    assert JoinLog().resolve(10, outside(0, 100 * MS), 174 * MS, 75 * MS) is Resolution.WAIT
    assert JoinLog().resolve(10, outside(0, 100 * MS), 175 * MS, 75 * MS) is Resolution.VIOLATION


def test_old_joinings_are_forgotten() -> None:
    """A reused pid is not excused by a joining of a minute ago, and the log does not grow for ever."""
    log = JoinLog()
    for number in range(1000):
        log.add(joined(number * KEEP_NS // 100, tid=number, tgid=number))

    assert len(log._joins) <= 102
    assert len(log._last) == len(log._joins)
