"""Threads that follow one another in the kernel's list are kept together: as if each had been looked up by itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from probes.masks import rows as mask_rows
from probes.masks.iterator import Piece
from probes.masks.passes import Passes, Terms
from probes.masks.records import EXITING, Known, TaskMasks
from probes.masks.rows import Rows
from probes.subjects import Subject
from tests.seeds import examples
from tests.unit.probes.mask_node import LAYOUT, record
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import ThreadMask
from toolkit.model.evidence.masks import of_each

OUTER = Subject(
    claim=Claim(name="a", cgroup="/a", cpus=CpuSet.parse("0-1")),
    cgroup_id=1,
    slot=0,
    ident=1,
    cpus=CpuSet.parse("0-1"),
    since_ns=0,
)
INNER = replace(OUTER, claim=replace(OUTER.claim, name="b", cgroup="/a/b"), ident=2)
OTHER = replace(OUTER, claim=replace(OUTER.claim, name="c", cgroup="/c"), ident=3)
SUBJECTS = (OUTER, INNER, OTHER)
Pass = list[list[bytes]]
"""Records by piece."""


def kept(passes: list[Pass], epochs: list[int], rows: Rows | None = None) -> tuple[set[ThreadMask], list[set[int]]]:
    """Return the rows of all threads, and in each pass those that were outside.

    :param epochs: of the claim ``c`` in each pass.
    """
    rows = Rows() if rows is None else rows
    known = Known(LAYOUT, 1000)
    taken, outside = Passes(known, rows, 100), []
    for number, (one, epoch) in enumerate(zip(passes, epochs, strict=True)):
        terms = {subject.ident: Terms.of(subject) for subject in (OUTER, INNER, replace(OTHER, epoch=epoch))}
        pieces: list[Piece] = [(1000 * number + at + 100, b"".join(records)) for at, records in enumerate(one)]
        outside.append({found.tid for found in taken.take(pieces, SUBJECTS, terms)})
    masks = list(of_each(rows.values()))
    assert max(Counter((one.claim, one.tid, one.comm, str(one), one.epoch) for one in masks).values(), default=1) == 1
    return set(masks), outside


class OneByOne(Rows):
    """As where there is no room for chunks."""

    def has_room(self, threads: int) -> bool:
        """None."""
        del threads
        return False


RECORDS = st.builds(
    record,
    tid=st.integers(2, 9),
    cpus=st.sampled_from([0b1, 0b11, 0b111]),
    ident=st.sampled_from([1, 1, 2, 3, 3, 9]),
    comm=st.sampled_from([b"x", b"y"]),
    flags=st.sampled_from([0, 0, 0, EXITING]),
    tgid=st.sampled_from([2, 3]),
    mems=st.sampled_from([1, 1, 2]),
)


@st.composite
def pass_of_all(draw: st.DrawFn) -> Pass:
    """Each thread at most once, in any order, in up to three pieces."""
    records = draw(st.lists(RECORDS, max_size=8, unique_by=lambda data: data[4:8]))
    cuts = sorted(draw(st.lists(st.integers(0, len(records)), min_size=2, max_size=2)))
    return [part for part in (records[: cuts[0]], records[cuts[0] : cuts[1]], records[cuts[1] :]) if part]


@st.composite
def several(draw: st.DrawFn) -> list[tuple[Pass, int]]:
    """Passes, some of which come again, and the epoch of a claim in each."""
    some = draw(st.lists(pass_of_all(), min_size=1, max_size=3))
    order = draw(st.lists(st.sampled_from(range(len(some))), min_size=1, max_size=6))
    epochs = sorted(draw(st.lists(st.integers(0, 1), min_size=len(order), max_size=len(order))))
    return [(some[at], epoch) for at, epoch in zip(order, epochs, strict=True)]


MOVED: list[tuple[Pass, int]] = [([[record(5), record(6)]], 0), ([[record(5, ident=2), record(6, ident=2)]], 0)]
"""From a claim to the one below it, whose threads are the outer's, too."""
NODES: list[tuple[Pass, int]] = [([[record(5, tgid=5), record(6, tgid=5, mems=2)]], 0)]


@example(MOVED, 0)
@example(NODES, 0)
@settings(max_examples=examples(100))
@given(several(), st.sampled_from([0, 1000]))
def test_all_is_as_if_each_thread_were_looked_up(found: list[tuple[Pass, int]], alone: int) -> None:
    """How often each was seen, from when to when, with which masks, and which were outside."""
    passes, epochs = [one for one, _ in found], [epoch for _, epoch in found]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mask_rows, "EACH_ALONE", alone)
        assert kept(passes, epochs) == kept(passes, epochs, OneByOne())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The records whose meaning was worked out."""
    found: list[bytes] = []
    decode = LAYOUT.decode

    def read(data: bytes) -> TaskMasks:
        found.append(data)
        return decode(data)

    monkeypatch.setattr(LAYOUT, "decode", read)
    return found


def test_a_chunk_is_read_once_and_found_by_its_bytes(reads: list[bytes]) -> None:
    """In every later pass, and in the next window, whose rows are its own."""
    known = Known(LAYOUT, 1000)
    records = b"".join(record(tid, ident=3) for tid in range(2, 30))
    for window in range(2):
        rows = Rows()
        taken = Passes(known, rows, 0)
        for at_ns in (5, 6, 7):
            taken.take([(at_ns, records)], SUBJECTS, {3: Terms.of(OTHER)})
        assert {(one.times_seen, one.first_at_ns, one.last_at_ns) for one in rows.values()} == {(3, 5, 7)}
        assert len(rows.values()) == 28
        assert len(reads) == 28, window
        known.turn()


@pytest.mark.parametrize("most", [40, 1000])
def test_a_container_whose_threads_come_and_go_is_kept_by_thread(
    most: int, reads: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its second chunk on: what chunks take up is no room of single threads, and nothing is worked out anew."""
    monkeypatch.setattr(mask_rows, "MAX_KEPT", most)
    rows = Rows()
    taken = Passes(Known(LAYOUT, 1000), rows, 0)
    for number in range(10):
        records = b"".join(record(tid, ident=3) for tid in (*range(2, 30), 100 + number))
        taken.take([(number, records)], SUBJECTS, {3: Terms.of(OTHER)})

    seen = {one.tid: one.times_seen for one in rows.values()}
    assert seen == dict.fromkeys(range(2, 30), 10) | dict.fromkeys(range(100, 110), 1)
    assert rows.dropped == {}
    assert max(Counter(reads).values()) == 2
