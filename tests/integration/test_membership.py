"""Tasks that join, leave and move between claims, through ``pinproof watch``: each moment counts for where it was.

A director plants (tests/data/probes/director.c), perf's task clock read around each move is the truth.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.account import Action, Place, differences, truth
from tests.integration.planting import Answer, Watch, cgroup, cpuset_mount, direct, identity, legacy_cpuset, procs

pytestmark = pytest.mark.integration

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
SPIN = (OUT, 0, 0)
"""Arguments of ``spawn`` for a task that never leaves its CPU."""
MS = 1000

needs_hybrid = pytest.mark.skipif(cpuset_mount() is None, reason="one hierarchy: a joining is one attach")


@pytest.fixture(scope="module", autouse=True)
def _two_cpus() -> None:
    if ONLINE[:2] != [0, 1]:
        pytest.skip("plants are made on CPUs 0 and 1")


@pytest.fixture
def home() -> Iterator[str]:
    """A cgroup that is claimed to stay on ``IN``."""
    with cgroup(f"pinproof-member-{os.getpid()}") as path:
        yield path


def claim(name: str, cgroup_path: str, cpu: int = IN, **more: Any) -> dict[str, Any]:
    """A claim as a claims file says it."""
    return {"name": name, "cgroup": cgroup_path, "cpus": str(cpu), **more}


def place(name: str, cgroup_path: str, forbidden: int = OUT) -> Place:
    """The same, for the account."""
    return Place(claim=name, procs=procs(cgroup_path), forbidden=forbidden)


def settled(*actions: Action) -> list[Action]:
    """Add what lets the window go on for a moment: what was left open is settled by what follows."""
    return [*actions, Action(at_us=actions[-1].at_us + 100 * MS, verb="rest")]


def held_against(
    director: Path, tmp_path: Path, script: list[Action], *places: tuple[str, str], failed: bool = True
) -> Answer:
    """Watch while a script is performed, and compare what is said with what was done."""
    with Watch({"claims": [claim(*one) for one in places]}, tmp_path) as watch:
        deeds = direct(director, script, IN)
        answer = watch.answer()
    assert [one for one in deeds if one.error] == []
    expected = truth(deeds, tuple(place(*one) for one in places))
    assert any(row.planted for row in expected.values()) is failed, "the plant itself came out as meant"
    assert differences(expected, answer.outside()) == []
    for name, _ in places:
        planted = any(row.planted for (one, _), row in expected.items() if one == name)
        assert (answer.outcome("cpuset-containment", name) == "failed") is planted
    assert answer.outcome("evidence-health") == "passed", answer.verdict("evidence-health")["reason"]
    return answer


def stays(actor: str, doors: list[str], inside_us: int, begin_us: int = 50 * MS) -> list[Action]:
    """Move an actor through the doors, one after the other."""
    return [
        Action(at_us=begin_us + number * inside_us, verb="write", actor=actor, args=(door,))
        for number, door in enumerate(doors)
    ]


def test_moved_in_while_spinning(director: Path, tmp_path: Path, home: str) -> None:
    """A task that never switches is moved in for 2 ms, 40 times."""
    moves = stays("a", [procs(home), procs()] * 40, 2 * MS)
    script = settled(
        Action(at_us=0, verb="spawn", actor="a", args=SPIN), *moves, Action(at_us=300 * MS, verb="kill", actor="a")
    )
    held_against(director, tmp_path, script, ("db", home))


def test_enters_and_leaves(director: Path, tmp_path: Path, home: str) -> None:
    """A task writes itself in and out 200 times, 0.5 ms each."""
    script = settled(
        Action(at_us=0, verb="spawn", actor="a", args=SPIN),
        Action(at_us=20 * MS, verb="hops", actor="a", args=(procs(home), procs(), 200, 500)),
        Action(at_us=30 * MS, verb="wait", actor="a"),
        Action(at_us=40 * MS, verb="kill", actor="a"),
    )
    held_against(director, tmp_path, script, ("db", home))


def test_moved_between_two_claims_while_spinning(director: Path, tmp_path: Path, home: str) -> None:
    """Each claim has what was run under it, whichever way the task came."""
    with cgroup(f"pinproof-other-{os.getpid()}") as other:
        moves = stays("a", [procs(home), procs(other)] * 20 + [procs()], 3 * MS)
        script = settled(
            Action(at_us=0, verb="spawn", actor="a", args=SPIN), *moves, Action(at_us=250 * MS, verb="kill", actor="a")
        )
        held_against(director, tmp_path, script, ("db", home), ("web", other))


def test_moved_in_before_the_probes_attach(director: Path, tmp_path: Path, home: str) -> None:
    """A task that was inside and outside its set before anybody watched is found at once."""
    script = f"0 spawn a {OUT} 0 0\n1000 write a {procs(home)}\n"
    with subprocess.Popen([director, str(IN)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as early:
        assert early.stdin is not None
        assert early.stdout is not None
        try:
            early.stdin.write(script)
            early.stdin.flush()
            early.stdout.readline(), early.stdout.readline()
            with Watch({"claims": [claim("db", home)]}, tmp_path) as watch:
                direct(director, [Action(at_us=0, verb="rest"), Action(at_us=500 * MS, verb="rest")], IN)
                answer = watch.answer()
        finally:
            early.stdin.close()
    assert answer.outcome("cpuset-containment", "db") == "failed"
    assert sum(row.ns for row in answer.outside()) >= 0.95 * 500e6
    assert answer.outcome("evidence-health") == "passed", answer.verdict("evidence-health")["reason"]


def test_forks_inside_while_its_parent_is_moved(director: Path, tmp_path: Path, home: str) -> None:
    """A child belongs where it was born; its parent's moves before and after are the parent's."""
    script = [Action(at_us=0, verb="spawn", actor="p", args=SPIN)]
    for number in range(6):
        at = (20 + 30 * number) * MS
        script += [
            Action(at_us=at, verb="write", actor="p", args=(procs(home),)),
            Action(at_us=at + 5 * MS, verb="fork", actor="p", args=(f"c{number}",)),
            Action(at_us=at + 6 * MS, verb="write", actor="p", args=(procs(),)),
            Action(at_us=at + 20 * MS, verb="kill", actor=f"c{number}"),
        ]
    script += [Action(at_us=250 * MS, verb="kill", actor="p")]
    held_against(director, tmp_path, settled(*script), ("db", home))


def test_cloned_into_the_cgroup(director: Path, tmp_path: Path, home: str) -> None:
    """``CLONE_INTO_CGROUP``: no attach is ever told of it."""
    script = [Action(at_us=0, verb="spawn", actor="p", args=(OUT, 200, 300))]
    for number in range(6):
        at = (20 + 20 * number) * MS
        script += [
            Action(at_us=at, verb="clone", actor="p", args=(f"c{number}", identity(home))),
            Action(at_us=at + 10 * MS, verb="kill", actor=f"c{number}"),
        ]
    script += [Action(at_us=200 * MS, verb="kill", actor="p")]
    held_against(director, tmp_path, settled(*script), ("db", home))


def test_exec_by_another_thread_right_after_joining(director: Path, tmp_path: Path, home: str) -> None:
    """The thread that executes takes over its leader's id; where it is does not change."""
    script = settled(
        Action(at_us=0, verb="spawn", actor="a", args=SPIN),
        Action(at_us=20 * MS, verb="write", actor="a", args=(procs(home),)),
        Action(at_us=20 * MS, verb="exec", actor="a"),
        Action(at_us=60 * MS, verb="kill", actor="a"),
    )
    held_against(director, tmp_path, script, ("db", home))


def test_exits_while_outside(director: Path, tmp_path: Path, home: str) -> None:
    """The last interval of a task that exits counts as the others do."""
    script = []
    for number, name in enumerate(itertools.islice("abcdefgh", 8)):
        at = 30 * number * MS
        script += [
            Action(at_us=at, verb="spawn", actor=name, args=SPIN),
            Action(at_us=at + 10 * MS, verb="write", actor=name, args=(procs(home),)),
            Action(at_us=at + 13 * MS, verb="kill", actor=name),
        ]
    held_against(director, tmp_path, settled(*script), ("db", home))


def test_a_process_of_many_threads_is_moved_as_a_whole(director: Path, tmp_path: Path, home: str) -> None:
    """One word of the kernel for the process, and all of its threads are moved."""
    script = [Action(at_us=0, verb="spawn", actor="a", args=SPIN)]
    script += [Action(at_us=(10 + 5 * n) * MS, verb="thread", actor="a", args=(f"t{n}",)) for n in range(3)]
    script += stays("a", [procs(home), procs()] * 10, 10 * MS, 60 * MS)
    script += [Action(at_us=300 * MS, verb="kill", actor="a")]
    # Which thread ran when is the scheduler's: the account is of the process, all of its threads' ids are known.
    held_against(director, tmp_path, settled(*script), ("db", home))


@pytest.mark.parametrize("back", [True, False], ids=["leaves and returns", "stays"])
@pytest.mark.parametrize("work", [("uring", OUT, 10, 1 << 20), ("sqpoll", OUT, 30)], ids=["io-wq", "sqpoll"])
def test_kernel_threads_of_a_process_are_its_own(
    director: Path, tmp_path: Path, home: str, work: tuple[Any, ...], back: bool
) -> None:
    """Workers that no fork event announces escape; what their process does later forgives nothing."""
    script = [
        Action(at_us=0, verb="spawn", actor="p", args=(IN, 100, 1000)),
        Action(at_us=20 * MS, verb="write", actor="p", args=(procs(home),)),
        Action(at_us=25 * MS, verb="fork", actor="p", args=("a",)),
        Action(at_us=40 * MS, verb=work[0], actor="a", args=work[1:]),
        Action(at_us=50 * MS, verb="wait", actor="a"),
        Action(at_us=150 * MS, verb="rest", actor="a"),
    ]
    if back:
        script += stays("a", [procs(), procs(home)], 100 * MS, 300 * MS)
    script += [Action(at_us=550 * MS, verb="kill", actor="a"), Action(at_us=560 * MS, verb="kill", actor="p")]
    held_against(director, tmp_path, settled(*script), ("db", home))


@needs_hybrid
@pytest.mark.parametrize("never", [False, True], ids=["late", "never"])
@pytest.mark.parametrize("first", ["identity", "cpuset"])
def test_joins_the_cpuset_late(director: Path, tmp_path: Path, home: str, never: bool, first: str) -> None:
    """On a hybrid host a joining is complete with the later of its two attaches; who never joins the cpuset escapes."""
    if never and first == "cpuset":
        pytest.skip("who is in the cpuset and not in the claim's cgroup is nobody's")
    with legacy_cpuset(home.strip("/"), IN) as cpuset:
        doors = [procs(home), cpuset]
        if first == "cpuset":
            doors.reverse()
        script = []
        for number in range(20):
            at, name = 20 * MS * number, f"x{number}"
            script += [Action(at_us=at, verb="spawn", actor=name, args=SPIN)]
            script += stays(name, doors[: 1 if never else 2], 2 * MS, at + 2 * MS)
            script += [Action(at_us=at + 8 * MS, verb="kill", actor=name)]
        with Watch({"claims": [claim("db", home)]}, tmp_path) as watch:
            deeds = direct(director, settled(*script), IN)
            answer = watch.answer()
    if never:
        assert differences(truth(deeds, (place("db", home),)), answer.outside()) == []
    else:
        assert answer.outside() == []
    assert answer.outcome("cpuset-containment", "db") == ("failed" if never else "passed")
    assert answer.outcome("evidence-health") == "passed", answer.verdict("evidence-health")["reason"]
