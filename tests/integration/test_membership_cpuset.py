"""Where cpusets are in a v1 hierarchy a task joins twice, its identity and its cpuset, in whichever order.

A joining is complete with the later of the two, if the second comes within the patience, or later where a process was
moving the task in; a task that never joins the cpuset is a member from the first. Nothing else is forgiven.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.observer import Observer
from tests.integration.cpuset_lab import IN, MARKS, ONLINE, OUT, Place, clean, narrow, placed, play, wide
from tests.integration.membership_lab import Account, Mover, consistent, cpuset, home, switches_on, total, verdict
from tests.integration.perf_account import PERIOD_NS, PerfAccount
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome

pytestmark = MARKS


@pytest.fixture(params=["narrow", "wide"])
def place(observer: Observer, request: pytest.FixtureRequest) -> Iterator[Place]:
    """As :func:`placed` makes it."""
    with placed(observer, request.param) as one:
        yield one


def until_they_died(evidence: Evidence, account: Account, perf: PerfAccount, died: int) -> tuple[float, float]:
    """Return how long tasks were outside at least and at most which die there.

    What they tell ends before their exit; perf counts most of that, and what they did on ``OUT`` before they entered.
    """
    low_ns = account.low_ns * 0.95 - perf.lost_ns(switches_on(evidence, OUT), died=died)
    return low_ns, perf.until_death_ns(died)


@narrow
@pytest.mark.parametrize(("count", "us"), [(30, 2000), (10, 200), (5, 20_000)])
def test_cpuset_is_joined_late(observer: Observer, place: Place, mover: Path, count: int, us: int) -> None:
    """Healthy: what a task runs between its two joinings is transition, and said so."""
    child = f"fork {{ pin {OUT} enter {place.identity} burn {us} done put {place.cpuset} 0 work 1000 nap 100 }}"
    evidence, account, perf = play(observer, mover, f"pin {IN} times {count} {{ {child} }}")
    clean(evidence, place)
    use = total(evidence)
    assert account.stays == count
    # By each joining's last interval, which ends when it is taken home: perf counts it, and all before.
    missed, lost_ns = perf.missed(switches_on(evidence, OUT)), perf.lost_ns(switches_on(evidence, OUT))
    assert use.transition_ns >= account.low_ns * 0.95 - lost_ns, (use, account, lost_ns)
    assert use.transition_switches >= count - missed
    # Each works 1 ms when it is complete, by its own clock, which runs no faster than the ledger's; hidden threads may
    # take a period of that as well.
    at_home = use.run_ns - sum(row.run_ns for row in evidence.cpu_use if row.cpu == OUT)
    assert at_home >= count * 900_000 - PERIOD_NS * perf.hidden.arrivals, (use, at_home)
    consistent(evidence)


@narrow
def test_a_child_is_born_into_the_identity(observer: Observer, place: Place, mover: Path) -> None:
    """Healthy: a child that clone3() makes in the identity joins the cpuset itself, as one that moves there does."""
    child = f"into {place.identity.parent} {{ start burn 2000 done put {place.cpuset} 0 work 500 nap 100 }}"
    evidence, account, perf = play(observer, mover, f"pin {OUT} times 30 {{ {child} }}")
    clean(evidence, place)
    assert account.stays == 30
    assert total(evidence).transition_ns >= account.low_ns * 0.95 - perf.lost_ns(switches_on(evidence, OUT))
    consistent(evidence)


@wide
def test_a_child_is_born_into_the_identity_alone(observer: Observer, place: Place, mover: Path) -> None:
    """One that never joins the cpuset, or that escapes when it has joined, is outside."""
    never = f"into {place.identity.parent} {{ start burn 2000 done }}"
    later = f"into {place.identity.parent} {{ put {place.cpuset} 0 start burn 2000 done }}"
    evidence, account, perf = play(observer, mover, f"pin {OUT} times 15 {{ {never} {later} }}")
    use = total(evidence)
    low_ns, high_ns = until_they_died(evidence, account, perf, 30)
    assert low_ns <= use.out_of_set_ns <= high_ns, (use, account)


@narrow
def test_a_child_is_born_between_the_joinings(observer: Observer, place: Place, mover: Path) -> None:
    """Healthy: the child of a task that is not complete yet joins the cpuset itself, as its parent does."""
    inner = f"fork {{ burn 500 put {place.cpuset} 0 burn 500 }}"
    child = f"fork {{ pin {OUT} put {place.identity} 0 {inner} put {place.cpuset} 0 burn 500 nap 100 }}"
    evidence, _, _ = play(observer, mover, f"pin {IN} times 20 {{ {child} }}")
    clean(evidence, place)


@narrow
def test_threads_are_there_between_the_joinings(observer: Observer, place: Place, mover: Path) -> None:
    """Healthy: a process with a thread that spins joins both, one after the other."""
    joins = f"thread {{ pin {OUT} burn 8000 }} nap 2000 put {place.identity} 0 nap 2000 put {place.cpuset} 0 wait"
    evidence, _, _ = play(observer, mover, f"pin {IN} times 10 {{ fork {{ {joins} }} }}")
    clean(evidence, place)


@narrow
def test_cpuset_is_never_joined(observer: Observer, place: Place, mover: Path) -> None:
    """A task that never joins the cpuset is a member from the first."""
    child = f"fork {{ pin {OUT} enter {place.identity} burn 3000 done }}"
    evidence, account, perf = play(observer, mover, f"pin {IN} times 20 {{ {child} }}")
    use = total(evidence)
    low_ns, high_ns = until_they_died(evidence, account, perf, 20)
    assert low_ns <= use.out_of_set_ns <= high_ns, (use, account)
    assert use.transition_ns == 0
    assert verdict(place.claims, evidence, "cpuset-containment") is Outcome.FAILED


@wide
def test_cpuset_first_healthy(observer: Observer, place: Place, mover: Path) -> None:
    """The cpuset first and the identity second, at home: nothing to say."""
    child = f"fork {{ pin {IN} put {place.cpuset} 0 burn 1000 put {place.identity} 0 burn 1000 nap 100 }}"
    evidence, _, _ = play(observer, mover, f"pin {IN} times 20 {{ {child} }}")
    clean(evidence, place)
    assert total(evidence).transition_ns == 0


@narrow
def test_cpuset_first_healthy_from_outside(observer: Observer, place: Place, mover: Path) -> None:
    """The same for a task that came from outside: the cpuset takes it home before the identity counts."""
    child = f"fork {{ pin {OUT} burn 1000 put {place.cpuset} 0 put {place.identity} 0 burn 1000 nap 100 }}"
    evidence, _, _ = play(observer, mover, f"pin {IN} times 20 {{ {child} }}")
    clean(evidence, place)


@wide
def test_cpuset_first_escaping(observer: Observer, place: Place, mover: Path) -> None:
    """The cpuset first: with the identity the joining is complete, and what comes outside from then on is outside."""
    stay = f"enter {place.identity} burn 1000 leave {home(os.getpid())}"
    child = f"fork {{ pin {OUT} put {place.cpuset} 0 burn 1000 {stay} }}"
    evidence, account, perf = play(observer, mover, f"pin {IN} times 30 {{ {child} }}")
    use = total(evidence)
    assert account.stays == 30
    assert account.agrees(use.out_of_set_ns, perf.lost_ns(switches_on(evidence, OUT))), (use, account)


@wide
def test_cpuset_late_and_escaping(observer: Observer, place: Place, mover: Path) -> None:
    """Only what lies between the two joinings is forgiven, not what the task does outside when it is complete."""
    second = f"put {place.cpuset} 0 start burn 3000 leave {home(os.getpid())}"
    child = f"fork {{ pin {OUT} put {place.identity} 0 work 2000 {second} }}"
    evidence, account, perf = play(observer, mover, f"pin {IN} times 20 {{ {child} }}")
    use = total(evidence)
    assert account.agrees(use.out_of_set_ns, perf.lost_ns(switches_on(evidence, OUT))), (use, account)
    # Half of what each worked between the two; a hidden thread may take a period of it, too.
    assert use.transition_ns >= 20 * 1_000_000 - perf.lost_ns(switches_on(evidence, OUT)), use


@wide
def test_cpuset_comes_too_late(observer: Observer, place: Place, mover: Path) -> None:
    """What has run outside for longer than the patience is completed by no cpuset: all of it was outside."""
    patience_us = observer.options.pending_ms * 1000
    late = f"enter {place.identity} work {2 * patience_us} put {place.cpuset} 0 leave {home(os.getpid())}"
    evidence, account, perf = play(observer, mover, f"pin {IN} fork {{ pin {OUT} {late} }}")
    use = total(evidence)
    assert account.agrees(use.out_of_set_ns, perf.lost_ns(switches_on(evidence, OUT))), (use, account)
    assert use.transition_ns == 0


@wide
@pytest.mark.parametrize("through", ["nothing", "the root"])
def test_second_attach_of_the_cpuset_forgives_nothing(
    observer: Observer, place: Place, mover: Path, through: str
) -> None:
    """A member that joins its cpuset again and again while it is outside is outside all the time."""
    again = f"put {place.cpuset} 0" if through == "nothing" else f"put {place.cpuset_home} 0 put {place.cpuset} 0"
    both = f"pin {IN} put {place.cpuset} 0 put {place.identity} 0 pin {OUT}"
    script = f"{both} times 40 {{ start burn 1000 pin {OUT} {again} done }}"
    evidence, account, perf = play(observer, mover, script)
    use = total(evidence)
    assert account.stays == 40
    assert use.out_of_set_ns >= account.low_ns * 0.95 - perf.lost_ns(switches_on(evidence, OUT)), (use, account)
    assert use.transition_ns == 0


@narrow
@pytest.mark.parametrize("ms", [30, 5])
def test_leaves_without_ever_joining_the_cpuset(observer: Observer, place: Place, mover: Path, ms: int) -> None:
    """Identity, an escape, and out again within the patience: it was a member for so long."""
    stay = f"pin {OUT} enter {place.identity} burn {ms * 1000} leave {home(os.getpid())} burn 2000"
    evidence, account, perf = play(observer, mover, f"times 5 {{ {stay} }}")
    use = total(evidence)
    assert account.stays == 5
    assert account.agrees(use.out_of_set_ns, perf.lost_ns(switches_on(evidence, OUT))), (use, account)
    assert verdict(place.claims, evidence, "cpuset-containment") is Outcome.FAILED


@wide
def test_another_cpuset_completes_nothing(observer: Observer, place: Place, mover: Path) -> None:
    """Joining another cgroup's cpuset is no joining of the claim's."""
    with cpuset(f"{place.path}-other", CpuSet.of(ONLINE)) as other:
        stay = f"pin {OUT} enter {place.identity} burn 2000 put {other} 0 burn 2000 leave {home(os.getpid())}"
        evidence, account, perf = play(observer, mover, f"times 20 {{ {stay} }} put {place.cpuset_home} 0")
    use = total(evidence)
    assert account.agrees(use.out_of_set_ns, perf.lost_ns(switches_on(evidence, OUT))), (use, account)


@wide
def test_a_later_cpuset_forgives_no_earlier_stay(observer: Observer, place: Place, mover: Path) -> None:
    """Out of the identity and in again: the joining that is completed is the second, the first stay was outside."""
    first = f"enter {place.identity} burn 3000 leave {home(os.getpid())} burn 200"
    second = f"put {place.identity} 0 work 1000 put {place.cpuset} 0"
    child = f"fork {{ pin {OUT} {first} {second} put {home(os.getpid())} 0 put {place.cpuset_home} 0 }}"
    evidence, account, perf = play(observer, mover, f"pin {IN} times 20 {{ {child} }}")
    use = total(evidence)
    # After it is complete it is outside until it has been moved home again: two writes.
    lost_ns = perf.lost_ns(switches_on(evidence, OUT))
    assert account.low_ns * 0.95 - lost_ns <= use.out_of_set_ns <= account.high_ns * 1.05 + 20 * 300_000, (use, account)
    assert use.transition_ns >= 20 * 500_000 - lost_ns


@narrow
def test_the_cpuset_is_joined_late_on_a_busy_node(observer: Observer, place: Place, mover: Path) -> None:
    """Healthy: the task is moved in, and for longer than the patience its mover has no CPU; it runs little itself."""
    patience_ms = observer.options.pending_ms
    gap = f"burn 1000 nap {4000 * patience_ms} burn 1000"
    child = f"fork {{ pin {OUT} enter {place.identity} {gap} done put {place.cpuset} 0 work 1000 nap 100 }}"
    evidence, account, perf = play(observer, mover, f"pin {IN} times 3 {{ {child} }}")
    clean(evidence, place)
    (joinings,) = evidence.joinings
    lost_ns = perf.lost_ns(switches_on(evidence, OUT))
    assert joinings.count == 3
    assert account.low_ns * 0.95 - lost_ns <= joinings.outside_ns <= account.high_ns * 1.05 + 3 * 300_000
    assert joinings.slowest_ns > 4_000_000 * patience_ms
    consistent(evidence)


@narrow
@pytest.mark.parametrize("again", ["the same process", "a new process each time"])
def test_endless_joining_is_no_joining(observer: Observer, place: Place, mover: Path, again: str) -> None:
    """Outside for most of the time that it is a member, and each time the cpuset comes soon: failed all the same."""
    out = f"put {home(os.getpid())} 0 put {place.cpuset_home} 0"
    stay = f"pin {OUT} enter {place.identity} work 30000 done put {place.cpuset} 0 {out}"
    body = stay if again == "the same process" else f"fork {{ {stay} }}"
    evidence, account, perf = play(observer, mover, f"pin {IN} times 20 {{ {body} }}")
    use = total(evidence)
    lost_ns = perf.lost_ns(switches_on(evidence, OUT))
    assert verdict(place.claims, evidence, "cpuset-containment") is Outcome.FAILED
    if again == "the same process":
        # A thread has the patience for all its joinings, and a tick's part more.
        patience_ns = observer.options.pending_ms * 1_000_000
        assert use.out_of_set_ns >= account.low_ns - patience_ns - 2 * PERIOD_NS - lost_ns, (use, account)
    else:
        (joinings,) = evidence.joinings
        assert joinings.count == 20
        assert joinings.outside_ns >= account.low_ns * 0.95 - lost_ns, (joinings, account)
        assert joinings.worst
    consistent(evidence)


@narrow
def test_a_process_is_moved_thread_by_thread(observer: Observer, place: Place, mover: Path) -> None:
    """Healthy: each thread joins the cpuset by itself, the leader first; the others are joining until then."""
    tasks = place.cpuset.parent / "tasks"
    thread = f"thread {{ pin {OUT} raise 1 await 2 burn 3000 put {tasks} 0 work 500 }}"
    joins = f"{thread} await 1 put {place.identity} 0 put {tasks} 0 raise 2 wait"
    evidence, _, _ = play(observer, mover, f"pin {IN} times 10 {{ fork {{ {joins} }} }}")
    clean(evidence, place)
    assert total(evidence).transition_ns >= 10 * 1_500_000
    consistent(evidence)


@narrow
def test_a_thread_ends_before_its_turn(observer: Observer, place: Place, mover: Path) -> None:
    """Healthy: the same, where one thread ends before it is moved."""
    tasks = place.cpuset.parent / "tasks"
    thread = f"thread {{ pin {OUT} raise 1 await 2 burn 2000 raise 3 }}"
    joins = f"{thread} await 1 put {place.identity} 0 raise 2 await 3 wait nap 3000 put {tasks} 0"
    evidence, _, _ = play(observer, mover, f"pin {IN} times 10 {{ fork {{ {joins} }} }}")
    clean(evidence, place)
    consistent(evidence)


@narrow
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_leader_that_joins_takes_no_thread_with_it(observer: Observer, place: Place, mover: Path, order: str) -> None:
    """A worker that is left outside is outside, whether its leader joins the cpuset before or after that."""
    tasks = place.cpuset.parent / "tasks"
    thread = f"thread {{ pin {OUT} raise 1 await 2 start burn 3000 done raise 3 nap 20000 }}"
    leader = f"put {tasks} 0 raise 2" if order == "before" else f"raise 2 await 3 put {tasks} 0"
    left = f"wait put {home(os.getpid())} 0 put {place.cpuset_home} 0"
    joins = f"{thread} await 1 put {place.identity} 0 {leader} put {home(os.getpid())} 0 {left}"
    if order == "before":
        joins = f"{thread} await 1 put {place.identity} 0 {leader} {left}"
    evidence, account, perf = play(observer, mover, f"pin {IN} times 10 {{ fork {{ {joins} }} }}")
    use = total(evidence)
    lost_ns = perf.lost_ns(switches_on(evidence, OUT), died=10)
    assert account.stays == 10
    assert use.out_of_set_ns >= account.low_ns * 0.95 - lost_ns, (use, account)
    assert verdict(place.claims, evidence, "cpuset-containment") is Outcome.FAILED


@narrow
@pytest.mark.parametrize("comes", [True, False], ids=["the cpuset comes", "it never comes"])
def test_a_claim_is_added_in_the_middle_of_a_joining(
    observer: Observer, place: Place, mover: Path, comes: bool
) -> None:
    """A task with the identity by then, and not the cpuset, may be joining; without the cpuset it was a member."""
    observer.remove_claim("db")
    last = f"put {place.cpuset} 0" if comes else f"put {home(os.getpid())} 0"
    joins = f"put {place.identity} 0 tell work 2000 nap 300000 work 2000 {last} tell put {home(os.getpid())} 0"
    with Mover(mover, f"pin {OUT} ready {joins} put {place.cpuset_home} 0") as run:
        run.go()
        run.account()
        observer.add_claim(place.claims.claims[0])
        observer.open_window()
        run.go()
        run.account()
        evidence = observer.close_window()
        run.end()
    if comes:
        clean(evidence, place)
        assert [row.count for row in evidence.joinings] == [1]
    else:
        assert verdict(place.claims, evidence, "cpuset-containment") is Outcome.FAILED
