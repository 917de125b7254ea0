"""Since when a container of the shared pool owes CPUs: by the state file's own time, not by when it was read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.unit.toolkit.session.followed import Node as FollowedNode
from tests.unit.toolkit.session.followed import owes
from tests.unit.toolkit.sources.kubelet.followed_node import Node, back, cpus
from toolkit.model.held import OWING
from toolkit.model.layers import Layer
from toolkit.sources.kubelet.held import PoolChanges
from toolkit.sources.live_source import SourceReading

STATE = "var/lib/kubelet/cpu_manager_state"
SECOND = 1_000_000_000


def written_ago(node: Node, seconds: float) -> None:
    """Let the state file have been written so long ago."""
    at_s = time.time() - seconds
    os.utime(node.root / STATE, (at_s, at_s))


def owed_since_ns(reading: SourceReading) -> int:
    """Return since when ``web/app`` owes (CLOCK_MONOTONIC)."""
    (row,) = (row for row in reading.held if row.why in OWING)
    assert row.claim == "web/app"
    return row.from_ns


def owed_for_s(reading: SourceReading) -> float:
    """Return for how long ``web/app`` owes, by now."""
    return (time.monotonic_ns() - owed_since_ns(reading)) / SECOND


def test_a_watch_that_begins_in_the_middle_of_a_lag_counts_from_its_begin(node: Node) -> None:
    """The pool has lost CPU 1 nine seconds ago; what is left of the bound is six."""
    node.state("0", db="2-3", new="1")
    written_ago(node, 9.0)
    reading = node.read()

    assert back(reading) == {"web/app": "1"}
    assert 9.0 <= owed_for_s(reading) < 12.0


def test_what_is_late_when_the_watch_begins_is_said_once_and_no_promise(node: Node) -> None:
    """A kubelet that has not reconciled for an hour does not get another fifteen seconds."""
    node.state("0", db="2-3", new="1")
    written_ago(node, 3600.0)
    first, second = node.read(), node.read()

    assert (cpus(first)["web/app"], back(first)) == ("0-1", {"web/app": "1"})
    assert owed_for_s(first) > first.give_back_s
    assert (cpus(second)["web/app"], back(second)) == ("0", {})


@pytest.mark.parametrize("ago_s", [3600.0, -3600.0], ids=["an old time", "a time to come"])
def test_a_clock_that_was_set_does_not_date_a_change_before_the_last_reading(node: Node, ago_s: float) -> None:
    """Nor after this one: the last reading has said something else."""
    before_ns = time.monotonic_ns()
    node.read()
    node.state("0", db="2-3", new="1")
    written_ago(node, ago_s)
    reading = node.read()

    assert before_ns <= owed_since_ns(reading) <= time.monotonic_ns()


def test_a_state_file_that_is_written_again_during_the_reading_dates_no_change(node: Node) -> None:
    """The runtime's answer is of the new file by then: the pool has CPU 1 again, and web was asked to have it."""
    node.state("0", db="2-3", new="1")
    written_ago(node, 3600.0)
    node.meanwhile = lambda: node.state("0-1", db="2-3")
    began_ns = time.monotonic_ns()
    reading = node.read()

    assert back(reading) == {"web/app": "1"}
    assert began_ns <= owed_since_ns(reading)


def test_the_state_files_word_is_of_when_it_was_written(node: Node) -> None:
    """`layers-agree` measures a lag by it; at a reading in which nothing is new it is of the reading."""
    node.state("0", db="2-3", new="1")
    written_ago(node, 9.0)
    times = [
        sorted(view.at_ns for view in reading.layers if (view.claim, view.layer) == ("web/app", Layer.CHECKPOINT))
        for reading in (node.read(), node.read())
    ]
    assert [len(one) for one in times] == [2, 1]
    assert 9.0 <= (times[0][1] - times[0][0]) / SECOND < 12.0


def test_a_pool_that_says_nothing_is_no_change() -> None:
    """What it said before holds; back again it is the same."""
    pool = PoolChanges()
    assert pool.at("0-1", 5.0, 60 * SECOND) == 55 * SECOND
    assert pool.at(None, 0.0, 70 * SECOND) is None
    assert pool.at("0-1", 0.0, 80 * SECOND) is None
    assert pool.at("0", 1.0, 90 * SECOND) == 89 * SECOND
    assert pool.at("0-1", None, 95 * SECOND) is None


def test_the_follower_counts_from_then_and_never_later(tmp_path: Path) -> None:
    """The limit is the bound from the loss on; a source that says nothing of it is counted from its reading."""
    node = FollowedNode(tmp_path)
    began_ns = time.monotonic_ns()
    owed = owes("a", "1", since_ns=began_ns - 10 * SECOND), owes("b", "1")
    claims = node.claim("a", "0-1"), node.claim("b", "0-1")
    node.say(*claims, held=owed, give_back_s=15.0)
    rows = {one.claim: one for one in node.follower._history._held.rows}

    assert rows["a"].from_ns == began_ns - 10 * SECOND
    assert rows["a"].due_ns == began_ns + 5 * SECOND
    assert rows["b"].from_ns >= began_ns
