"""The reader of control files sleeps until there is something to do; the listener wakes it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from probes.cgroups.files import FileEdge, Files
from probes.observer import Observer
from probes.options import ObserveOptions
from probes.readings import Moment
from probes.subjects import Subject
from probes.switches.ledger import Ledger
from probes.witness import Edge
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet


class _Stirs:
    """A witness that has news or none."""

    news = False

    def stirred(self) -> bool:
        return self.news


def test_the_reader_of_files_is_woken_when_there_is_something_to_do(tmp_path: Path) -> None:
    """Something was reported, a window began, a claim came or went; each once, and not while it awaits more writes."""
    observer = Observer(ClaimSet(claims=()), tmp_path, Ledger(tmp_path, ObserveOptions(), ()))
    heard: list[int] = []
    observer.ledger.wake = lambda: heard.append(1)  # type: ignore[method-assign]
    observer.hierarchy = Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path)
    woken: list[int] = []
    stirs, files = _Stirs(), Files(observer)
    observer.witnesses = cast("Any", (stirs,))
    reader = SimpleNamespace(rests=True, beaten=False)
    files._known, files._reader = cast("Any", object()), cast("Any", reader)
    files._loop = cast("Any", SimpleNamespace(wake=lambda: woken.append(1)))
    beat, chore = files.chores()
    assert not chore.period_s, "in every round: a write ends one"

    def wakes() -> bool:
        woken.clear()
        chore.work()
        return bool(woken)

    assert wakes(), "nothing has been read yet"
    assert not wakes()
    claim = Claim(name="db", cgroup="/db", cpus=CpuSet.of([0]))
    subject = Subject(claim=claim, cgroup_id=7, slot=0, ident=1, cpus=CpuSet.of([0]), since_ns=0)
    for happens in (files.claiming, files.unclaiming):
        heard.clear()
        happens(subject)
        assert heard, "the listener has its next round at once"
        assert wakes()
        assert not wakes()
    files.begin(cast("Any", SimpleNamespace(start_ns=0)), Edge(Moment(at_ns=0), (FileEdge({}),)))
    assert wakes()
    stirs.news = True
    assert wakes()
    assert (beat.period_s, beat.may_wait()) == (files.period_s, False)
    stirs.news = reader.beaten = False
    woken.clear()
    beat.work()
    assert (woken, reader.beaten) == ([1], True)
    woken.clear()
    stirs.news, reader.rests = True, False
    beat.work()
    assert not woken, "it is at work, and finds that it was beaten in its next round"
    assert not wakes()
