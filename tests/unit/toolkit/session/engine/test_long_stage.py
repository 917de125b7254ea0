"""Windows of a long stage: what is promised after the first, where the time counts from, what an error leaves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.toolkit.session.played import Clock, Opened
from tests.unit.validators.evidence_builder import claim_set
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.session.engine.composing import Observed
from toolkit.session.engine.consecutive import Consecutive
from toolkit.session.engine.long_stage import Cut, Watched, afterwards, watch
from toolkit.session.engine.record import Origin
from toolkit.store import window_paths

CLAIMS = claim_set()
DB = replace(CLAIMS.claims[0], demand_cpus=1.0)
CLAIMS = replace(CLAIMS, claims=(DB, *CLAIMS.claims[1:]))


class Fails(Opened):
    """An observation that fails when its third window ends."""

    promised_anew = ()
    observer = SimpleNamespace(subjects=("db", "web", "batch"))

    def turn(self) -> Observed:
        seen = super().turn()
        if len(self.lengths_s) == 3:
            raise RuntimeError("no more")
        return seen


def watched(opened: Fails, path: Path, duration_s: float, action: Callable[[object], None] | None = None) -> Watched:
    """Watch a played observation in windows of 30 s."""

    def consecutive(path: Path, **how: Any) -> Consecutive:
        return Consecutive(opened, claim_set(), path, stopped=opened.stopped, **how)  # type: ignore[arg-type]

    one: Any = SimpleNamespace(opened=opened, consecutive=consecutive)
    return watch(one, claim_set(), path, Cut(), duration_s, action=action, origin=Origin())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    played = Clock()
    monkeypatch.setattr(time, "monotonic", played.monotonic)
    return played


def test_an_error_leaves_the_windows_before_it(clock: Clock, tmp_path: Path) -> None:
    """Two were judged and saved: their sums are the result, and the error is reported beside them."""
    done = watched(Fails(clock, []), tmp_path / "run", 300.0)

    assert isinstance(done.error, RuntimeError)
    assert done.sums is not None
    assert done.sums.windows is not None
    assert (done.sums.windows.count, list(window_paths(tmp_path / "run"))) == (2, [1, 2])


def test_what_is_asked_for_counts_from_the_end_of_the_changes(clock: Clock, tmp_path: Path) -> None:
    """A restart of 50 s makes the first window longer; the second has its whole length all the same."""
    opened = Fails(clock, [])
    done = watched(opened, tmp_path / "run", 60.0, lambda _opened: opened._pass(50.0))

    assert (opened.lengths_s, done.error) == ([80.0, 30.0], None)


def test_one_window_is_no_row(clock: Clock, tmp_path: Path) -> None:
    """A rest too short for a window belongs to the one before: the run is that window, and its caller saves it."""
    done = watched(Fails(clock, []), tmp_path / "run", 30.5)

    assert (done.sums, done.record.saved.path) == (None, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def after(*changes: tuple[int, str]) -> ClaimSet:
    """Return what is promised after ``db`` was promised each of these sets."""
    return afterwards(
        CLAIMS,
        tuple(
            ClaimChange(at_ns=at, claim=replace(DB, cpus=CpuSet.parse(text), demand_cpus=None)) for at, text in changes
        ),
    )


def test_nothing_changed() -> None:
    """The claims are those of the first window."""
    assert after() == CLAIMS


def test_the_last_promise_holds() -> None:
    """A set that grew stays; what its work asks for is not known."""
    (db, *_) = after((5, "6"), (9, "6-7")).claims
    assert (db.cpus, db.demand_cpus) == (CpuSet.parse("6-7"), None)


def test_a_claim_that_has_what_it_had_asks_for_what_it_did() -> None:
    """A pool that shrank and grew again: a later window judges its quota and its weight as the first would have."""
    assert after((5, "7"), (9, str(DB.cpus))) == CLAIMS


def test_a_claim_that_came_is_promised_something() -> None:
    """A claim that is new; whether its cgroup is still there is for the observer to say."""
    new = replace(DB, name="new/main", cgroup="/new")
    assert afterwards(CLAIMS, (ClaimChange(at_ns=1, claim=new),)).claims == (*CLAIMS.claims, new)
