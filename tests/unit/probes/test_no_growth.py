"""A watch of many claims that come and go keeps no more than one of a few: names, bounds, paths, hotplug events."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from probes.observer import Observer
from probes.options import ObserveOptions
from probes.readings import Moment
from probes.subjects import Subject
from probes.switches import owners
from probes.switches.ledger import Ledger
from probes.switches.owners import KEPT_WINDOWS, WALK_WINDOWS, CgroupNames
from probes.switches.published import Bound
from probes.switches.records import CPUSET_SPACE
from probes.window import Window
from probes.witness import Edge
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.host.hotplug import HotplugMonitor
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import HotplugEvent

CLAIMS = 10_000


def subject(ident: int) -> Subject:
    claim = Claim(name=f"pod-{ident}/db", cgroup=f"/pods/{ident}")
    return Subject(claim=claim, cgroup_id=ident, slot=0, ident=ident, cpus=CpuSet.of([0]), since_ns=0)


def test_claims_that_are_gone_leave_nothing(tmp_path: Path) -> None:
    """What a window watched is known for one more; of 10,000 that came and went the last few are."""
    observer = Observer(ClaimSet(claims=()), tmp_path, Ledger(tmp_path, ObserveOptions(), ()))
    for number in range(1, CLAIMS + 1):
        edges = [Edge(Moment(at_ns=number + end), ()) for end in (0, 1)]
        window = Window(
            ledger=observer.ledger,
            subjects=observer.subjects,
            number=number,
            first=edges[0],
            started_at="",
            last=edges[1],
        )
        one = subject(number)
        observer.names[number] = one.name
        observer.published.claim(number, Bound(at_ns=number, cpus=one.cpus))
        window.removed.append(one)
        before = set(observer.names) - {number}
        observer.forget_old(window)
        assert before <= {number - 1}
        assert observer.names == {number: one.name}
    assert len(observer.published._claims) == 1

    observer.subjects["stays"] = stays = subject(CLAIMS + 1)
    observer.names[stays.ident] = "stays"
    observer.published.claim(stays.ident, Bound(at_ns=0, cpus=stays.cpus))
    for _ in range(3):
        window.removed.clear()
        observer.forget_old(window)
    assert observer.names == {stays.ident: "stays"}
    assert observer.published.of(stays.ident, 5) is not None


def test_paths_of_cgroups_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that are there, have a claim, or were asked for a moment ago."""
    there = {1: "/there"}
    monkeypatch.setattr(owners.cgroupfs, "directories", lambda _top: [(path, number) for number, path in there.items()])
    monkeypatch.setattr(owners.cgroupfs, "spelt", lambda directory, _top: directory)
    known = CgroupNames(Hierarchy(root=Path("/"), mode=Mode.V2, unified=Path("/")))
    known.note(2, "/claimed")
    known.note(3, "/gone")
    for number in range(10, 10 + CLAIMS):
        there[number] = f"/pods/{number}"
        if number % 50 == 0:
            known.refresh()
        else:
            known.note(number, there[number])
        del there[number]
        known.next_window([2])
        assert len(known._paths) == len(known._named) <= KEPT_WINDOWS + 5

    assert (known[1], known[2], known[3], known[9 + CLAIMS]) == ("/there", "/claimed", "", f"/pods/{9 + CLAIMS}")


def test_a_cgroup_that_was_deleted_is_gone(tmp_path: Path) -> None:
    """Also where another has its name; v1 cpusets count as they are found."""
    v1, v2 = tmp_path / "cpuset", tmp_path / "unified"
    for directory in (v1 / "pods/a", v2 / "pods/a"):
        directory.mkdir(parents=True)
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.HYBRID, unified=v2, legacy=(("cpuset", v1),))
    known = CgroupNames(hierarchy)
    numbers = [(v2 / "pods/a").stat().st_ino, (v1 / "pods/a").stat().st_ino | CPUSET_SPACE]
    assert [known.gone(number) for number in numbers] == [False, False]
    assert known.gone(1)
    for directory in (v1 / "pods/a", v2 / "pods/a"):
        directory.rename(directory.with_name("b"))
    (v2 / "pods/a").mkdir()
    assert [known.gone(number) for number in numbers] == [True, True]


def test_cgroups_are_looked_for_where_some_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the ends of two windows, for one may just be being made at the first; and once in a while all the same."""
    walks: list[int] = []
    monkeypatch.setattr(owners.cgroupfs, "directories", lambda _top: walks.append(1) or iter(()))
    known = CgroupNames(Hierarchy(root=Path("/"), mode=Mode.V2, unified=Path("/")))

    def walked(*made: int | None) -> list[int]:
        found = []
        for count in made:
            walks.clear()
            known.refresh_once(count)
            known.next_window(())
            found.append(len(walks))
        return found

    assert walked(7, 7, 7, 7, 8, 8, 8) == [1, 1, 0, 0, 1, 1, 0]
    assert walked(None, None, 8) == [1, 1, 1], "they are not counted"
    assert walked(9, 9) == [1, 1]
    assert sum(walked(*[9] * 3 * WALK_WINDOWS)) in (2, 3)


def test_hotplug_events_that_were_taken_are_folded() -> None:
    """What they led to is what later events begin with."""
    monitor = HotplugMonitor()
    monitor._online_before = CpuSet.parse("0-3")
    for at_ns in range(CLAIMS):
        monitor._events.append(HotplugEvent(cpu=2, online=at_ns % 2 == 1, at_ns=at_ns))
        assert [event.at_ns for event in monitor.take()] == [at_ns]
    assert monitor.events == monitor.take() == ()
    assert cast("CpuSet", monitor._online_before) == CpuSet.parse("0-3")
    monitor._events.append(HotplugEvent(cpu=1, online=False, at_ns=0))
    monitor.take()
    assert cast("CpuSet", monitor._online_before) == CpuSet.parse("0,2-3")
