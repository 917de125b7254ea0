"""A session's windows: when each ends, what a wish to stop does, what is seen meanwhile; with a played clock."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.toolkit.session.played import Clock, Opened
from tests.unit.validators.evidence_builder import claim_set, evidence
from toolkit.model.claims import ClaimSet
from toolkit.session.engine.composing import Observed
from toolkit.session.engine.consecutive import Consecutive, Judged


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    played = Clock()
    monkeypatch.setattr(time, "monotonic", played.monotonic)
    return played


def run(opened: Opened, **how: Any) -> tuple[Consecutive, list[Judged]]:
    session = Consecutive(opened, claim_set(), Path("runs/x"), stopped=opened.stopped, **how)  # type: ignore[arg-type]
    return session, list(session.windows())


@pytest.mark.parametrize(
    ("window_s", "duration_s", "lengths_s"),
    [
        (30.0, 90.0, [30.0, 30.0, 30.0]),
        (30.0, 70.0, [30.0, 30.0, 10.0]),
        (30.0, 60.5, [30.0, 30.5]),
        (30.0, 5.0, [5.0]),
        (0.5, 1.2, [0.5, 0.7]),
    ],
)
def test_lengths(clock: Clock, window_s: float, duration_s: float, lengths_s: list[float]) -> None:
    """Windows fill the duration; a rest too short to be judged belongs to the window before it."""
    opened = Opened(clock, [])
    _, judged = run(opened, window_s=window_s, duration_s=duration_s)
    assert opened.lengths_s == lengths_s
    assert opened.closed
    assert [one.number for one in judged] == list(range(1, len(lengths_s) + 1))
    assert [one.last for one in judged] == [False] * (len(lengths_s) - 1) + [True]


def limited(period_us: int) -> ClaimSet:
    """Claims one of which has a quota with this period."""
    claims = claim_set()
    return replace(claims, claims=(replace(claims.claims[0], quota_us=period_us, period_us=period_us),))


@pytest.mark.parametrize(("duration_s", "lengths_s"), [(61.5, [30.0, 31.5]), (62.5, [30.0, 30.0, 2.5])])
def test_a_rest_has_the_periods_of_its_quotas(clock: Clock, duration_s: float, lengths_s: list[float]) -> None:
    """Twenty periods of 100 ms are needed to judge a quota: in less the last window of a healthy node is undecided."""
    opened: Any = Opened(clock, [])
    session = Consecutive(opened, limited(100_000), Path("runs/x"), window_s=30.0, duration_s=duration_s)
    assert len(list(session.windows())) == len(lengths_s)
    assert opened.lengths_s == lengths_s


@pytest.mark.parametrize(("period_us", "last_s"), [(10_000, 1.0), (100_000, 2.0), (1_000_000, 3.0)])
def test_a_stop_waits_for_the_periods_of_quotas(clock: Clock, period_us: int, last_s: float) -> None:
    """At most some seconds: a quota with a long period is undecided in a window that has only just begun."""
    opened: Any = Opened(clock, [], clock.now_s + 30.2)
    session = Consecutive(opened, limited(period_us), Path("runs/x"), window_s=30.0, stopped=opened.stopped)
    assert len(list(session.windows())) == 2
    assert opened.lengths_s == [30.0, last_s]


def test_where_windows_are_saved(clock: Clock) -> None:
    """One window is the run itself; of more each has a directory of its own."""
    _, judged = run(Opened(clock, []), window_s=30.0, duration_s=5.0)
    assert [str(one.record.saved.path) for one in judged] == ["runs/x"]
    assert judged[0].alone
    _, judged = run(Opened(clock, []), window_s=30.0, duration_s=60.0)
    assert [str(one.record.saved.path) for one in judged] == ["runs/x/window-000001", "runs/x/window-000002"]
    assert not any(one.alone for one in judged)


@pytest.mark.parametrize(("stop_after_s", "lengths_s"), [(75.0, [30.0, 30.0, 15.0]), (60.1, [30.0, 30.0, 2.0])])
def test_a_stop_ends_the_open_window(clock: Clock, stop_after_s: float, lengths_s: list[float]) -> None:
    """It is judged like the others; one that has only just begun goes on until it can be."""
    opened = Opened(clock, [], clock.now_s + stop_after_s)
    session, judged = run(opened, window_s=30.0)
    assert opened.lengths_s == lengths_s
    assert judged[-1].last
    windows = session.result().windows
    assert windows is not None
    assert windows.count == 3


def test_a_machine_that_stood_still_makes_one_long_window(clock: Clock) -> None:
    """What was missed is not made up for with windows too short to be judged."""
    opened = Opened(clock, [], clock.now_s + 250.0)
    opened.stall_s = {2: 100.0}
    run(opened, window_s=30.0)
    assert opened.lengths_s[:2] == [30.0, 130.0]
    assert min(opened.lengths_s[2:-1]) >= 15.0


def test_judging_that_takes_time_adds_up_to_nothing(clock: Clock) -> None:
    """Windows end at multiples of their length."""
    opened = Opened(clock, [])
    opened.judging_s = 2.0
    run(opened, window_s=10.0, duration_s=100.0)
    assert opened.lengths_s == [10.0] * 10


def test_a_state_counts_on(clock: Clock) -> None:
    """A reader never sees a count go back while windows come and go, and finds something when all is over."""
    opened = Opened(clock, [])
    session = Consecutive(opened, claim_set(), Path("runs/x"), window_s=1.0, duration_s=3.0)  # type: ignore[arg-type]

    def judged_so_far() -> int:
        seen = session.state()
        total = seen.counters.copy()
        if seen.open is not None:
            total.add_open(seen.open)
        return total.sums["switches_judged", ()]

    seen = [judged_so_far()]
    seen += [judged_so_far() for _ in session.windows()]
    one = evidence().coverage.switches_judged
    assert seen == [one, 2 * one, 3 * one, 3 * one]
    assert session.state().open is None
    assert session.state().last is not None


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("ends", ["turn", "close"])
def test_a_look_does_not_wait_for_a_window_that_ends(clock: Clock, ends: str, looked: bool) -> None:
    """The node is asked once more, and may take seconds. The window is shown as it was seen last, or not yet."""
    counts: list[float] = []

    class Asks(Opened):
        def _observed(self) -> Observed:
            # In another thread, as a scrape: it must come back while the window ends.
            other = threading.Thread(target=look, daemon=True)
            other.start()
            other.join(120.0)
            assert not other.is_alive(), "it waits for the window to end"
            return super()._observed()

    def look() -> None:
        found = session.state()
        total = found.counters.copy()
        if found.open is not None:
            total.add_open(found.open)
        counts.append(total.sums.get(("switches_judged", ()), 0))

    opened = Asks(clock, [])
    duration_s = 30.0 if ends == "close" else 60.0
    session = Consecutive(opened, claim_set(), Path("runs/x"), duration_s=duration_s)  # type: ignore[arg-type]
    windows = session.windows()
    if looked:
        look()
    next(windows)
    look()

    one = evidence().coverage.switches_judged
    before = [one] if looked else []
    assert counts == [*before, *(before or [0]), one if ends == "close" else 2 * one]


def test_a_container_gone_before_it_could_be_watched_is_in_no_window(clock: Clock) -> None:
    """A container that ends while a watch begins, as one that crashes each minute, leaves no doubt in the first window.

    Where claims are not followed each of them is watched, or the watch does not begin.
    """
    opened = Opened(clock, [])
    opened.observer = SimpleNamespace(subjects={"db": None})  # type: ignore[attr-defined]
    for now, names in ((claim_set, {"db"}), (None, {"db", "web"})):
        _, (first,) = run(opened, window_s=30.0, duration_s=5.0, now=now)
        assert {claim.name for claim in first.record.claims.claims} == names
        opened.closed = False
