"""Of thousands of threads those that were read alike share a row; of fewer each has its own."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from probes.masks import rows as mask_rows
from probes.masks.rows import Rows
from probes.masks.status import Masks
from probes.masks.thread import Thread
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import ThreadMask
from toolkit.model.evidence.masks import of_each


def thread(tid: int, pid: int = 10, name: str = "x", cpus: str = "0-1", policy: str = "other") -> Thread:
    masks = Masks(CpuSet.parse(cpus), CpuSet.parse("0"))
    return Thread(tid=tid, pid=pid, comm=name, masks=masks, policy=policy)


SEEN = (
    *((thread(tid), "db", 5, 0) for tid in (13, 10, 11, 12)),
    (thread(20, pid=20), "db", 5, 0),
    (thread(14, name="y"), "db", 5, 0),
    (thread(15, cpus="0"), "db", 5, 0),
    (thread(16, policy="fifo"), "db", 5, 0),
    (thread(17), "db", 6, 0),
    (thread(18), "db", 5, 1),
    (thread(19), "web", 5, 0),
)
"""Four that are alike; the others differ from them in one thing each."""


def kept(seen: Iterable[tuple[Thread, str, int, int]]) -> tuple[ThreadMask, ...]:
    rows = Rows()
    for one, claim, at_ns, epoch in seen:
        rows.keep(claim, one, at_ns, epoch)
    return rows.values()


@pytest.mark.parametrize("alone", [0, len(SEEN) - 1, len(SEEN)])
def test_threads_that_were_read_alike(alone: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that differs in anything is by itself; and nothing is said that a row each would not say."""
    monkeypatch.setattr(mask_rows, "EACH_ALONE", alone)
    found = kept(SEEN)

    together = alone < len(SEEN)
    assert [one.tids for one in found if one.alike] == ([(10, 11, 12, 13)] if together else [])
    assert len(found) == len(SEEN) - 3 * together
    monkeypatch.setattr(mask_rows, "EACH_ALONE", len(SEEN))
    assert {*of_each(found)} == {*kept(SEEN)}


def test_one_that_was_read_more_often_is_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the same first and last time."""
    monkeypatch.setattr(mask_rows, "EACH_ALONE", 0)
    again = [(one, claim, 9, epoch) for one, claim, _, epoch in SEEN[:3]]
    more = [(one, claim, 7, epoch) for one, claim, _, epoch in SEEN[:1]]
    found = kept([*SEEN[:3], *more, *again])

    assert [(one.tids, one.times_seen, one.first_at_ns, one.last_at_ns) for one in found] == [
        ((13,), 3, 5, 9),
        ((10, 11), 2, 5, 9),
    ]
