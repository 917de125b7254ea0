"""What an observer notes of its own blindness: clocks, notes of a window, gaps between scans, hidden threads."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from probes.blindness import MAX_NOTES, Blindness
from probes.clocks import Clock
from probes.masks.decoder import MAX_GAPS, gap_spots
from probes.masks.thread import UnreadableError
from probes.masks.threads import CPU_SHARE, WAIT_NS, ThreadMasks
from probes.node.decoder import hidden_spots
from probes.node.untraced import Hidden, Untraced
from probes.subjects import Subject
from tests.unit.probes.readings import FRAME
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.blind_spots import ScanGap, Witness
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet

MS = 1_000_000


def test_a_clock_knows_its_longest_pause_and_both_ends() -> None:
    """From the opening to the first beat, between beats, and from the last beat to the close."""
    clock = Clock(100)
    assert clock.until(130) == (30, 100)
    clock.beat(110)
    clock.beat(150)
    assert clock.until(160) == (40, 110)
    assert clock.until(200) == (50, 150)
    assert clock.beats == 2


def test_what_takes_time_is_known_from_its_beginning() -> None:
    """A thread that a scan read first may not be read again before the end of the next scan."""
    clock = Clock(0)
    clock.beat(30, since_ns=10)
    clock.beat(60, since_ns=40)
    assert clock.until(60) == (50, 10)


def test_a_note_belongs_to_the_windows_of_its_time() -> None:
    """A fault taints its window, not the day; what has no time taints all."""
    notes = Blindness()
    notes.note("lost", (Witness.SWITCHES,), 100, 200)
    notes.note("never seen", (Witness.MASKS,), None, None)

    assert [spot.text for spot in notes.within(0, 99)] == ["never seen"]
    assert [spot.text for spot in notes.within(150, 400)] == ["lost", "never seen"]
    assert [spot.text for spot in notes.within(201, 400)] == ["never seen"]
    (lost, _) = notes.within(150, 400)
    assert (lost.start_at_ns, lost.end_at_ns, lost.witnesses) == (0, 50, (Witness.SWITCHES,))
    notes.forget(201)
    assert [spot.text for spot in notes.within(0, 400)] == ["never seen"]


@pytest.mark.parametrize("again", [(100, 900), (100, 2_200), (100, 3_000), (100, None), (None, 900), (None, None)])
@pytest.mark.parametrize("old_end", [2_500, None])
def test_what_is_noted_later_may_have_been_earlier(again: tuple[int | None, int | None], old_end: int | None) -> None:
    """Threads note in any order: the window of the earlier time keeps its doubt, and so does that of the later one."""
    notes = Blindness()
    notes.note("an error", (Witness.FILES,), 2_000, old_end)
    notes.note("an error", (Witness.FILES,), *again)

    assert notes.within(0, 1_000)
    assert notes.within(2_000, 3_000)


def test_windows_between_two_notes_are_whole() -> None:
    """Two errors far apart are two, whichever is noted first."""
    times = (100 * MS, 200 * MS), (9_000 * MS, 9_100 * MS)
    for order in (times, times[::-1]):
        notes = Blindness()
        for start_ns, end_ns in order:
            notes.note("an error", (Witness.FILES,), start_ns, end_ns)
        assert notes.within(2_000 * MS, 8_000 * MS) == ()
        assert notes.within(0, 1_000 * MS)
        assert notes.within(9_000 * MS, 10_000 * MS)


def test_an_error_that_comes_again_and_again_is_one_note() -> None:
    """However long it goes on; and a flood of different ones is bounded, and doubts everything."""
    notes = Blindness()
    for at in range(1000):
        notes.note("again", (Witness.MASKS,), at * 100 * MS, at * 100 * MS + MS)
    assert len(notes.within(0, 10**12)) == 1
    for number in range(2 * MAX_NOTES):
        notes.note(f"error {number}", (Witness.MASKS,), 0, 1)
    found = notes.within(0, 10**12)
    assert len(found) <= MAX_NOTES + 1
    assert set(found[-1].witnesses) == set(Witness)


def gap(name: str, longest_ms: int) -> ScanGap:
    return ScanGap(claim=name, scans=5, longest_ns=longest_ms * MS, at_ns=20 * MS, allowed_ns=700 * MS)


def test_a_gap_beyond_the_stated_resolution_names_its_claim() -> None:
    """Exactly the resolution is none; many claims are told together, about the whole node."""
    assert gap_spots((gap("a", 700), gap("b", 0))) == []
    (found,) = gap_spots((gap("a", 701), gap("b", 700)))
    assert (found.claim, found.witnesses) == ("a", (Witness.MASKS,))
    assert (found.start_at_ns, found.end_at_ns) == (20 * MS, 721 * MS)
    (all_of_them,) = gap_spots(tuple(gap(f"c{number}", 5000 + number) for number in range(MAX_GAPS + 1)))
    assert all_of_them.claim is None
    assert f"{MAX_GAPS + 1} claims" in all_of_them.text


@pytest.mark.parametrize(
    ("thread", "watched", "pods", "witnesses"),
    [
        (Hidden(name="w", cpus=CpuSet.parse("0-3"), cgroup="/sys"), "", "/pods", set()),
        (Hidden(name="w", cpus=CpuSet.parse("0-1"), cgroup="/sys"), "2-3", "/pods", set()),
        (Hidden(name="w", cpus=CpuSet.parse("0-3"), cgroup="/sys"), "2-3", "/pods", {"system-tasks"}),
        (Hidden(name="w", cpus=CpuSet.parse("0-3"), cgroup="/sys"), "2-3", None, {"system-tasks"}),
        (Hidden(name="w", cpus=CpuSet.parse("0-3"), cgroup="/pods/a"), "2-3", "/pods", {"switches", "system-tasks"}),
        (Hidden(name="w", cpus=CpuSet.parse("0-3"), cgroup="/podsy"), "2-3", "/pods", {"system-tasks"}),
        (Hidden(name="w"), "2-3", "/pods", {"switches", "system-tasks"}),
    ],
)
def test_a_hidden_thread_weakens_what_it_may_have_done(
    thread: Hidden, watched: str, pods: str | None, witnesses: set[str]
) -> None:
    """Nothing where no watched CPU is allowed to it; more where it is a pod's, or was gone before it was looked at."""
    frame = replace(FRAME, watched=CpuSet.parse(watched), pods_root=pods)
    (found,) = hidden_spots(Untraced(switches=9, skew=0, threads=(thread,)), frame)
    assert set(found.witnesses) == witnesses
    assert "; at most 10 ms of a task that one of them interrupts is missing (9 switches in the window)" in found.text


def tree(root: Path, tids: list[int], *, proc: bool = True) -> ThreadMasks:
    """Make a cgroup with threads whose mask is 0, beside a /proc."""
    directory = root / "cgroup/a"
    directory.mkdir(parents=True)
    (directory / "cgroup.threads").write_text("".join(f"{tid}\n" for tid in tids))
    for tid in (1, *tids) if proc else ():
        (root / f"proc/{tid}").mkdir(parents=True)
        (root / f"proc/{tid}/status").write_text(f"Name:\tx\nTgid:\t{tid}\nCpus_allowed_list:\t0\n")
        (root / f"proc/{tid}/cgroup").write_text("0::/a\n")
    hierarchy = Hierarchy(mode=Mode.V2, unified=root / "cgroup", root=root)
    return ThreadMasks(hierarchy, root, 0, 200 * MS)


def subject(**changes: object) -> Subject:
    values: dict[str, object] = {"cgroup_id": 1, "slot": 0, "ident": 1, "cpus": CpuSet.parse("0"), "since_ns": 0}
    return Subject(claim=Claim(name="a", cgroup="/a", cpus=CpuSet.parse("0")), **{**values, **changes})  # type: ignore[arg-type]


def test_a_scan_that_was_cut_short_is_none(tmp_path: Path) -> None:
    """Only a complete one ends a gap."""
    masks, one = tree(tmp_path, [7, 8]), subject()
    masks.scan_all([one], lambda: True)
    (row,) = masks.gaps([one], 10**9)
    assert (row.scans, row.longest_ns, masks.scans) == (0, 10**9, 0)
    masks.scan_all([one], lambda: False)
    (row,) = masks.gaps([one], 10**9)
    assert (row.scans, masks.scans) == (1, 1)
    assert row.allowed_ns >= 200 * MS + WAIT_NS
    assert row.allowed_ns <= 200 * MS + WAIT_NS + CPU_SHARE * 10**9


def test_a_proc_that_is_gone_is_no_dead_thread(tmp_path: Path) -> None:
    """Threads that the cgroup lists and that have no status are dead, unless none has one."""
    masks, one = tree(tmp_path, [7, 8], proc=False), subject()
    with pytest.raises(UnreadableError, match="proc"):
        masks.scan_all([one], lambda: False)
    assert masks.gaps([one], 10**9)[0].scans == 0
    os.makedirs(tmp_path / "proc/1")  # noqa: PTH103
    (tmp_path / "proc/1/status").write_text("")
    masks.scan_all([one], lambda: False)
    assert masks.gaps([one], 10**9)[0].scans == 1


def test_the_time_of_a_change_is_not_missing(tmp_path: Path) -> None:
    """Masks read while the set is being changed are not kept; the gap begins anew behind it."""
    masks, one = tree(tmp_path, [7]), subject(changing=True)
    masks.scan_all([one], lambda: False)
    (row,) = masks.gaps([one], 0)
    assert (row.scans, masks.values()) == (0, ())


def test_a_claim_that_was_removed_is_followed_until_then(tmp_path: Path) -> None:
    """And one that was added later from then on."""
    masks, one, late = tree(tmp_path, [7]), subject(), subject(ident=2, watched_ns=900)
    masks.end(one, 400)
    rows = masks.gaps([one, late], 1000)
    assert [row.longest_ns for row in rows] == [400, 100]
