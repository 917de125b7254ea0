"""A thread that ends while its process joins a v1 cpuset: the kernel moves it no more (``docs/facts.md``, K35)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.observer import Observer
from tests.integration.cpuset_lab import IN, MARKS, OUT, Place, clean, narrow, placed, play, wide
from tests.integration.membership_lab import Account, consistent, home, switches_on, total
from tests.integration.perf_account import PerfAccount
from toolkit.model.evidence import CpuUse, Evidence

pytestmark = MARKS


@pytest.fixture(params=["narrow", "wide"])
def place(observer: Observer, request: pytest.FixtureRequest) -> Iterator[Place]:
    """As :func:`placed` makes it."""
    with placed(observer, request.param) as one:
        yield one


def outside(evidence: Evidence, account: Account, perf: PerfAccount) -> CpuUse:
    """Assert that ten threads were outside up to their end, and for longer than what they tell; returns the sums."""
    use = total(evidence)
    lost_ns = perf.lost_ns(switches_on(evidence, OUT), died=10)
    assert account.stays == 10
    assert use.out_of_set_ns >= 2 * account.low_ns - lost_ns, (use, account)
    return use


@narrow
def test_a_thread_ends_between_the_joinings(observer: Observer, place: Place, mover: Path) -> None:
    """Healthy: the kernel moves no task that exits, so the rest of its way out is where its process has left.

    Closing its files takes longer than the second joining takes to come: milliseconds of its end are after that.
    """
    thread = f"thread {{ pin {OUT} files 10000 raise 1 await 2 }}"
    joins = f"{thread} await 1 put {place.identity} 0 raise 2 nap 500 put {place.cpuset} 0 wait"
    evidence, _, _ = play(observer, mover, f"pin {IN} times 10 {{ fork {{ {joins} }} }}")
    clean(evidence, place)
    # A thread's end takes milliseconds, not the half of one between the joinings.
    assert total(evidence).transition_ns > 10 * 500_000
    consistent(evidence)


@narrow
def test_a_thread_ends_and_the_cpuset_is_never_joined(observer: Observer, place: Place, mover: Path) -> None:
    """Its process has left nothing: it was a member from the first, its end too."""
    thread = f"thread {{ pin {OUT} files 10000 raise 1 await 2 start burn 500 done }}"
    joins = f"{thread} await 1 put {place.identity} 0 raise 2 wait put {home(os.getpid())} 0"
    evidence, account, perf = play(observer, mover, f"pin {IN} times 10 {{ fork {{ {joins} }} }}")
    use = outside(evidence, account, perf)
    assert use.transition_ns == 0


@wide
def test_a_thread_ends_outside_of_what_it_joined(observer: Observer, place: Place, mover: Path) -> None:
    """It was moved with its process, and went out by itself: that is outside, its end too."""
    thread = f"thread {{ files 10000 raise 1 await 2 pin {OUT} start burn 500 done }}"
    joins = f"{thread} await 1 put {place.identity} 0 put {place.cpuset} 0 pin {IN} raise 2 wait"
    leaves = f"put {home(os.getpid())} 0 put {place.cpuset_home} 0"
    evidence, account, perf = play(observer, mover, f"pin {IN} times 10 {{ fork {{ {joins} {leaves} }} }}")
    use = outside(evidence, account, perf)
    assert use.out_of_set_ns > use.transition_ns, (use, account)
