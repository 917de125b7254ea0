"""Counters that are read in turn: how often the ledger is asked, and of whom the kernel."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from probes.cgroups import bandwidth, counters
from probes.cgroups.bandwidth import CgroupCounters
from probes.cgroups.counters import Bandwidth, BandwidthWatch, StatEdge
from probes.cgroups.decoder import BandwidthReading
from probes.observer import Observer
from probes.readings import Moment
from probes.subjects import Subject
from probes.witness import Edge, OpenWindow
from toolkit.host.cgroupfs import CpuStat, Hierarchy, Mode
from toolkit.host.kept_files import NONE_KEPT
from toolkit.model.claims import Claim
from toolkit.model.cpuset import EMPTY, CpuSet

MANY = 50


class Used:
    """The ledger's CPU time of every claim, and how often all and one were asked for."""

    def __init__(self) -> None:
        self.ns = dict.fromkeys(range(MANY), 0)
        self.all = self.one = 0

    def usage_ns(self) -> dict[int, int]:
        self.all += 1
        return dict(self.ns)

    def usage_of_ns(self, subject: Subject) -> int:
        self.one += 1
        return self.ns[subject.ident]


@pytest.fixture
def used() -> Used:
    return Used()


@pytest.fixture
def watch(tmp_path: Path, used: Used) -> BandwidthWatch:
    """A window of fifty claims, in a tree of files."""
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path)
    for one in subjects():
        place = tmp_path / one.claim.cgroup[1:]
        place.mkdir()
        (place / "cpu.stat").write_text("usage_usec 7\nsystem_usec 1\n")
    state = SimpleNamespace(
        subjects={one.name: one for one in subjects()},
        ledger=SimpleNamespace(online=lambda: EMPTY, sampled=lambda: EMPTY, observed=True),
    )
    counted = CgroupCounters(hierarchy)
    stats = {one.claim.cgroup: counted.read(one.claim.cgroup) for one in subjects()}
    window = SimpleNamespace(watch=lambda _kind: used, closed=True)
    return BandwidthWatch(cast("Observer", state), counted, cast("OpenWindow", window), StatEdge(at_ns=1, stats=stats))


def subjects() -> list[Subject]:
    return [
        Subject(
            claim=Claim(name=f"c{number}", cgroup=f"/c{number}"),
            cgroup_id=0,
            slot=number,
            ident=number,
            cpus=CpuSet(),
            since_ns=0,
        )
        for number in range(MANY)
    ]


def read(watch: BandwidthWatch, cgroup: str) -> CpuStat:
    found = watch.read(Edge(Moment(at_ns=2), (StatEdge(at_ns=2),)))
    assert isinstance(found, BandwidthReading)
    last = found.accounts[cgroup].last
    assert last is not None
    return last.stat


def test_the_ledger_is_asked_once_for_a_round(watch: BandwidthWatch, used: Used, tmp_path: Path) -> None:
    """By what it says most claims have not run since; of one that has the kernel's count is read beside its own."""
    (tmp_path / "c3/cpu.stat").write_text("usage_usec 9000\nsystem_usec 1\n")
    (tmp_path / "c4/cpu.stat").write_text("usage_usec 9000\nsystem_usec 1\n")
    used.ns[3] = 8_000_000
    for one in subjects():
        watch.again(one)
    assert (used.all, used.one) == (1, 1)
    assert [read(watch, f"/c{number}").usage_ns for number in (3, 4)] == [9_000_000, 7_000]


def test_the_next_round_asks_again(watch: BandwidthWatch, used: Used, tmp_path: Path) -> None:
    """What a claim has used meanwhile is in no answer of before."""
    for one in subjects():
        watch.again(one)
    (tmp_path / "c3/cpu.stat").write_text("usage_usec 9000\nsystem_usec 1\n")
    used.ns[3] = 8_000_000
    watch._asked_ns -= counters.TURN_NS
    for one in subjects():
        watch.again(one)
    assert used.all == 2
    assert read(watch, "/c3").usage_ns == 9_000_000


@pytest.mark.parametrize(
    ("known", "silent", "charged"),
    [(True, EMPTY, {"/a", "/a/b"}), (False, EMPTY, {"/a", "/a/b", "/c"}), (True, CpuSet.of([1]), {"/a", "/a/b", "/c"})],
)
def test_the_kernel_charges_first_where_a_task_ran(
    known: bool, silent: CpuSet, charged: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And above it. Where that is not known, or a CPU is not interrupted, of every claim."""
    claims = [Claim(name=cgroup, cgroup=cgroup) for cgroup in ("/a", "/a/b", "/c")]
    for number, claim in enumerate(claims):
        (tmp_path / claim.cgroup[1:]).mkdir()
        (tmp_path / claim.cgroup[1:] / "cgroup.procs").write_text(f"{number}\n")
    asked: set[int] = set()
    monkeypatch.setattr(bandwidth, "bring_up_to_date", asked.update)
    slots = [SimpleNamespace(claim=claim, slot=slot) for slot, claim in enumerate(claims)]
    observer = SimpleNamespace(
        hierarchy=Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path),
        kept_counters=NONE_KEPT,
        subjects={one.claim.name: one for one in slots},
        window=object() if known else None,
        ledger=SimpleNamespace(
            observed=True,
            online=lambda: silent,
            sampled=lambda: EMPTY,
            window=3,
            rows=SimpleNamespace(all_ns=lambda _slots, window: [0, 5, 0] if window == 3 else []),
        ),
    )
    edge = Bandwidth(cast("Observer", observer)).edge(turn=True)
    next(edge)
    # A process below a claim is one of the claim's, too.
    assert {claims[number].cgroup for number in asked} == charged
