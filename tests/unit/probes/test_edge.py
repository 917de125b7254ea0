"""One end of a window: what is lost while it is read may be of either window, and is a loss of both."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.actions.witness import ActionWitness
from probes.build import build
from probes.edge import read_edge, wall_offset_ns
from probes.node.witness import OwnCost
from probes.observer import Observer
from probes.readings import Moment, Readings
from probes.switches.decoder import SwitchEdge
from probes.switches.ledger import Ledger
from probes.switches.witness import Switches
from probes.witness import Edge, Witness
from probes.writes.reader import Writes
from probes.writes.witness import WriteWitness
from tests.unit.probes.readings import FRAME, SWITCHES, but, state
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Coverage


class Losing:
    """A ledger, and what hears of actions and writes: each counts as lost what ``lost`` says."""

    def __init__(self) -> None:
        self.window, self.lost, self.members_lost = 1, 0, 0

    def prepare_window(self) -> None: ...

    def new_window(self) -> None:
        self.window += 1

    def online(self) -> CpuSet:
        return CpuSet.of([0])

    def side(self, kind: type[Any]) -> Any:
        return _Writes(self) if kind is Writes else _Actions(self)

    def read_states(self) -> bytes:
        return bytes([self.lost])

    def states(self, data: bytes) -> list[Any]:
        return [state(lost_events=data[0], map_full=data[0])]

    def run_time_ns(self) -> int:
        return 0

    def missed_runs(self) -> int:
        return self.lost


class _Actions(SimpleNamespace):
    def __init__(self, ledger: Losing) -> None:
        nothing = lambda _window: ()  # noqa: E731
        super().__init__(
            dropped=lambda: (ledger.lost, ledger.lost, ledger.lost),
            moves=nothing,
            left_before=nothing,
            affinities=nothing,
            loaded=SimpleNamespace(root=Path("/")),
            blind_spots=(),
        )


class _Writes(SimpleNamespace):
    def __init__(self, ledger: Losing) -> None:
        super().__init__(
            dropped=lambda: ledger.lost,
            of_window=lambda _window: (),
            unkept=lambda _window: 0,
            directories=None,
            observed=False,
            complete=True,
            blind_spots=(),
        )


class Busy(Witness):
    """Others read at the edge, and a ring runs over meanwhile, before or after the ledger's moment."""

    def __init__(self, ledger: Losing) -> None:
        self.ledger, self.before, self.after = ledger, 0, 0

    def edge(self, turn: bool) -> Generator[None, None, None]:
        self.ledger.lost += self.before
        yield
        self.ledger.lost += self.after


def coverage(witnesses: tuple[Any, ...], first: Edge, last: Edge) -> Coverage:
    """Return what is known of the loss of a window between two edges."""
    window = SimpleNamespace(number=7, closed=True, start_ns=0)
    *others, _ = (witness for witness in witnesses if not isinstance(witness, Busy))
    found = [one.begin(window, first).read(last) for one in others]
    found.append(replace(SWITCHES, first=first.of(SwitchEdge), last=last.of(SwitchEdge)))
    frame = replace(FRAME, sampled=CpuSet(), last=replace(FRAME.last, online=CpuSet.of([0])))
    return build(Readings(frame, but(*found))).coverage


@pytest.mark.parametrize(("before", "after"), [(7, 0), (0, 7)])
def test_a_loss_while_an_edge_is_read_is_of_both_windows(tmp_path: Path, before: int, after: int) -> None:
    """Each counter, on whichever side of the ledger's moment: neither window is believed; the third one is."""
    ledger = Losing()
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path)
    observer = cast("Observer", SimpleNamespace(ledger=ledger, hierarchy=hierarchy, root=tmp_path))
    busy = Busy(ledger)
    witnesses = (OwnCost(observer), ActionWitness(observer), WriteWitness(observer), busy, Switches(observer))
    programs = cast("Ledger", ledger)

    edges = [read_edge(programs, witnesses)]
    busy.before, busy.after = before, after
    edges.append(read_edge(programs, witnesses))
    busy.before = busy.after = 0
    edges += [read_edge(programs, witnesses), read_edge(programs, witnesses)]

    seen = [coverage(witnesses, first, last) for first, last in pairwise(edges)]
    for counter in (
        *("lost_events", "map_full", "missed_runs"),
        *("cgroup_moves_dropped", "affinity_changes_dropped", "leaves_dropped", "control_writes_dropped"),
    ):
        counts = [getattr(one, counter) for one in seen]
        assert counts[2] == 0, counter
        assert counts[0] > 0, counter
        # The ledger's own are read next to its moment: what was lost before that is none of the next window's.
        assert (counts[1] > 0) is not (before > 0 and counter in ("lost_events", "map_full")), counter


def test_both_clocks_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment of an edge has its wall clock: of pairs between whose readings others ran that which took least."""
    pairs = iter([(0, 7, 10**9), (10**9, 2 * 10**9, 10**9 + 2_000), (0, 0, 0)])
    now = iter([clock for pair in pairs for clock in pair])
    monkeypatch.setattr("probes.edge.time", SimpleNamespace(monotonic_ns=lambda: next(now), time_ns=lambda: next(now)))

    assert wall_offset_ns() == 10**9 - 1_000


def test_a_window_says_when_it_opened() -> None:
    """To the microsecond: what a reader adds to it is right within a millisecond."""
    moment = Moment(at_ns=5, wall_ns=1_795_000_000_123_456_789)

    assert moment.started_at == "2026-11-18T11:06:40.123456+00:00"


def test_the_wall_clock_is_that_of_the_moment() -> None:
    """Not of before the witnesses were read, however long that took."""
    before = time.time_ns() - time.monotonic_ns()
    offset_ns = wall_offset_ns()
    after = time.time_ns() - time.monotonic_ns()

    assert min(before, after) - 1_000_000 <= offset_ns <= max(before, after) + 1_000_000
