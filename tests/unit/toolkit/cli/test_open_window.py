"""Lines about a window that is open: what its evidence shows each period, and nothing that its end may excuse."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.validators.evidence_builder import claim_set, evidence
from tests.unit.validators.evidence_builder import intruder as task
from tests.unit.validators.live_layers_builder import BE, SAME, node
from toolkit.cli import live_lines
from toolkit.cli.live_lines import LiveLines
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.report.result import make_result
from toolkit.session.engine.record import Record
from toolkit.session.windows.counters import SessionState
from toolkit.timeline.ran import asked
from validators.registry import judge

MS = 1_000_000
NODE = claim_set(BE, reconcile_period_s=10.0)
DRIFT = node(SAME, SAME, [(0, "0-3"), (10, "0-1")])
SOUND = node(SAME, SAME, [(0, "0-3")])


class Watch:
    """A watch whose clock a test turns. :param claims: as they were when the window opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], claims: ClaimSet) -> None:
        self.now_s = 0.0
        clock = SimpleNamespace(
            monotonic=lambda: self.now_s, thread_time=lambda: 0.0, strftime=time.strftime, monotonic_ns=lambda: 0
        )
        monkeypatch.setattr(live_lines, "time", clock)
        self._said, self._claims, self._capsys = LiveLines(10.0), claims, capsys

    def lines(self, seen: Evidence) -> list[str]:
        """Return what is printed ten seconds later, while the window has shown this."""
        self.now_s += 10
        self._said.tick(lambda: SessionState(open=seen, promised=self._claims))
        return self.printed()

    def ended(self, seen: Evidence) -> None:
        """End the window."""
        result = make_result(seen, judge(self._claims, seen), unknown=None)
        record = SimpleNamespace(claims=self._claims, evidence=seen, result=result, ran=asked(seen))
        self._said.ended(cast(Record, record))

    def printed(self) -> list[str]:
        """Return the lines without their times."""
        return [line.partition(" ")[2] for line in self._capsys.readouterr().err.splitlines()]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Watch:
    """A followed node with one container of the pool."""
    return Watch(monkeypatch, capsys, NODE)


def test_a_drift_is_a_line_each_period_while_it_lasts(watch: Watch) -> None:
    """However long the window is; the first look may see what the next reading explains."""
    found = [watch.lines(DRIFT) for _ in range(4)]
    assert [len(lines) for lines in found] == [0, 1, 1, 1]
    assert found[1][0].startswith("be/main: cri and cgroup differ")


def test_a_drift_that_is_over_is_said_once(watch: Watch) -> None:
    """The window stays failed, and what is over is no news."""
    back = node(SAME, SAME, [(0, "0-3"), (10, "0-1"), (25, "0-3")])
    assert [len(watch.lines(seen)) for seen in (DRIFT, back, back, back)] == [0, 1, 0, 0]


def test_what_the_next_look_excuses_is_no_line(watch: Watch) -> None:
    """A node's reading comes later than what it explains."""
    assert [watch.lines(seen) for seen in (DRIFT, SOUND, DRIFT, SOUND)] == [[]] * 4


def test_a_lag_that_may_be_reconciled_is_no_line(watch: Watch) -> None:
    """Until the bound no container is late."""
    late = node([(0, "0-3"), (20, "0-1"), (29, "0-1")], SAME, [(0, "0-3")])
    assert [watch.lines(late) for _ in range(4)] == [[]] * 4


def test_the_end_of_a_window_is_one_line_with_its_period(watch: Watch) -> None:
    """What was seen while it was open and what it comes to are not said twice."""
    assert [len(watch.lines(DRIFT)) for _ in range(2)] == [0, 1]
    watch.ended(DRIFT)
    later = replace(DRIFT, start_monotonic_ns=99)
    assert [len(watch.lines(later)) for _ in range(3)] == [1, 1, 1]


def test_what_the_end_excuses_begins_anew(watch: Watch) -> None:
    """A failure of the next window is another one."""
    watch.lines(DRIFT)
    watch.ended(SOUND)
    later = replace(DRIFT, start_monotonic_ns=99)
    assert [len(watch.lines(later)) for _ in range(3)] == [0, 0, 1]


def ran(owner: OwnerClass, total_ms: Iterable[float]) -> list[Evidence]:
    """A task on an exclusive CPU, by what it had run for at each look."""
    return [
        evidence(intruders=(task(owner, comm="hog", total_ns=int(ms * MS), longest_ns=1, first_at_ns=1),))
        for ms in total_ms
    ]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Watch:
    """Claims of a file: an owner of CPUs 2-3, and a pool."""
    return Watch(monkeypatch, capsys, claim_set())


def test_system_tasks_on_exclusive_cpus_are_a_line_with_what_is_new(machine: Watch) -> None:
    """Too little for a line adds up until it is one; the window's end tells the rest."""
    seen = ran(OwnerClass.SYSTEM, (0.4, 0.8, 1.2, 5.2, 5.2))
    text = "db: system tasks on its CPU 2: hog {} ms"
    assert [machine.lines(one) for one in seen] == [[], [], [text.format("1.2")], [text.format("4")], []]
    machine.ended(*ran(OwnerClass.SYSTEM, [8.2]))
    assert machine.lines(replace(seen[0], start_monotonic_ns=99)) == [text.format("3")]


def test_tasks_of_other_pods_are_a_line_when_no_start_of_a_container_explains_them(machine: Watch) -> None:
    """A runtime may be at work in a cgroup that is not known yet: 27 s later it is known."""
    found = [machine.lines(one) for one in ran(OwnerClass.FOREIGN_POD, (3, 4, 5, 6, 9))]
    text = "db: tasks of other pods on its CPU 2: hog {} ms"
    assert found == [[], [], [], [text.format("6")], [text.format("3")]]


def test_a_look_that_costs_much_is_made_seldom(machine: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth of a CPU is what live lines may take: after a second of it a thousand pass."""
    spent_s = iter(range(1000))
    monkeypatch.setattr(live_lines.time, "thread_time", lambda: float(next(spent_s)))
    seen = ran(OwnerClass.SYSTEM, range(2, 204, 2))
    assert [len(machine.lines(one)) for one in seen] == [1, *([0] * 99), 1]
