"""Writes to control files on the real kernel: writer, time, value and the kernel's answer; a flood is counted."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.cgroups.files import Files
from probes.composition import WITNESSES
from probes.loaded import loaded, observing
from probes.observer import Observer
from probes.options import ObserveOptions
from probes.switches.ledger import Ledger
from probes.writes.reader import Writes
from probes.writes.witness import WriteWitness
from tests.integration.probe_lab import wait_for
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import ControlWrite, Evidence

pytestmark = [pytest.mark.integration, pytest.mark.beside]

HIERARCHY = cgroupfs.detect()
CPU = HIERARCHY.controller_dir("cpu")
FILE = "cpu.weight" if HIERARCHY.is_v2("cpu") else "cpu.shares"
WRITER = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY), sys.argv[2].encode())"
COMM = "\x1b[31mevil\n"
HOSTILE = f"import sys; open('/proc/self/comm', 'w').write({COMM!r}); " + WRITER


@contextlib.contextmanager
def both(name: str) -> Iterator[str]:
    """Make ``/name/leaf`` where the identity is and where the controller is."""
    mounts = dict.fromkeys((HIERARCHY.identity_root(), CPU))
    made: list[Path] = []
    try:
        for mount in mounts:
            for folder in (mount / name, mount / name / "leaf"):
                folder.mkdir()
                made.append(folder)
                if mount == HIERARCHY.identity_root() and HIERARCHY.is_v2("cpu") and folder.name == name:
                    (folder / "cgroup.subtree_control").write_text("+cpu")
        yield f"/{name}/leaf"
    finally:
        for folder in reversed(made):
            folder.rmdir()


def write(file: Path, value: str, program: str = WRITER) -> tuple[int, int, int]:
    """Let another process write; return its pid, and the times around it."""
    before = time.monotonic_ns()
    with subprocess.Popen([sys.executable, "-c", program, str(file), value], stderr=subprocess.DEVNULL) as child:
        child.wait()
    return child.pid, before, time.monotonic_ns()


@pytest.fixture(scope="module")
def tracing() -> Iterator[Ledger]:
    """Loaded programs that see writes at the exit of system calls where the kernel refuses the cheap way."""
    with loaded(options=ObserveOptions(trace_syscalls=True)) as one:
        yield one


def see(observer: Observer) -> None:
    """Skip where the kernel does not take the program."""
    side = observer.ledger.side(Writes)
    if not side.observed:
        pytest.skip("; ".join(side.blind_spots))


@contextlib.contextmanager
def claimed(name: str, ledger: Ledger) -> Iterator[tuple[str, Observer]]:
    """Make a cgroup with a claim, and open a window about it."""
    with (
        both(f"pinproof-{name}-{os.getpid()}") as path,
        observing(ClaimSet(claims=(Claim(name="db", cgroup=path),)), ledger=ledger) as observer,
    ):
        see(observer)
        observer.open_window()
        yield path, observer


def rows(evidence: Evidence, cgroup: str) -> list[ControlWrite]:
    """Return the writes to one cgroup's files."""
    assert evidence.control_writes is not None
    return [row for row in evidence.control_writes if row.cgroup == cgroup]


def test_a_write_has_its_author_time_value_and_answer(tracing: Ledger) -> None:
    """Of the claim's cgroup and of the one above it; refused ones with their errno; a hostile name is escaped."""
    with claimed("writes", tracing) as (path, observer):
        above = path.rpartition("/")[0]
        leaf, parent = CPU / path[1:] / FILE, CPU / above[1:] / FILE
        pid, before, after = write(leaf, "300\n")
        evil, *_ = write(parent, "400", HOSTILE)
        refused, *_ = write(leaf, "no number" * 20)
        leaf.write_text("500")
        (CPU / path[1:] / "cgroup.procs").write_text("")
        evidence = observer.close_window()
    first, bad, own = rows(evidence, path)
    assert (first.pid, first.tid, first.file, first.value, first.errno, first.own) == (pid, pid, FILE, "300", 0, False)
    assert first.value_bytes == 4
    assert before <= first.at_ns + evidence.start_monotonic_ns <= after
    assert first.hierarchy == ("v2" if HIERARCHY.is_v2("cpu") else "cpu")
    assert (bad.pid, bad.errno, bad.value_bytes) == (refused, errno.EINVAL, 180)
    assert bad.value == ("no number" * 20)[:63]
    assert (own.pid, own.value, own.own) == (os.getpid(), "500", True)
    (row,) = rows(evidence, above)
    assert (row.pid, row.comm, row.value) == (evil, "\\x1b[31mevil\\n", "400")
    assert evidence.coverage.control_writes_dropped == 0


def test_only_claims_cgroups_are_of_interest(tracing: Ledger) -> None:
    """A cgroup without a claim, and one whose claim was removed, are of no claim; the removed one's writes stay."""
    with both(f"pinproof-other-{os.getpid()}") as other, claimed("mine", tracing) as (mine, observer):
        write(CPU / other[1:] / FILE, "300")
        pid, *_ = write(CPU / mine[1:] / FILE, "301")
        observer.remove_claim("db")
        write(CPU / mine[1:] / FILE, "302")
        evidence = observer.close_window()
    assert [(row.cgroup, row.pid, row.value) for row in evidence.control_writes or ()] == [(mine, pid, "301")]


def test_the_last_write_before_a_window_is_remembered(tracing: Ledger) -> None:
    """Each file's last accepted write before the window is in it, with a negative time; the one before that is not."""
    with claimed("before", tracing) as (path, observer):
        file = CPU / path[1:] / FILE
        write(file, "300")
        pid, *_ = write(file, "301")
        write(file, "none")
        assert len(rows(observer.finish(observer.turn_window()), path)) == 3
        evidence = observer.close_window()
    (row,) = rows(evidence, path)
    assert (row.pid, row.value) == (pid, "301")
    assert row.at_ns < 0


def test_a_cgroup_made_anew_is_watched(tracing: Ledger) -> None:
    """The new directory of the name is the claim's soon after the kernel reports it."""
    with claimed("anew", tracing) as (path, observer):
        mounts = dict.fromkeys((HIERARCHY.identity_root(), CPU))
        for mount in mounts:
            (mount / path[1:]).rmdir()
        for mount in mounts:
            (mount / path[1:]).mkdir()
        subject = observer.subjects["db"]
        number = cgroupfs.cgroup_id(HIERARCHY, path)
        wait_for(lambda: subject.cgroup_id == number, "the claim follows")
        # Where v1 and v2 come one after the other, the later is looked for once a second.
        deadline = time.monotonic() + 5

        def seen() -> bool:
            write(CPU / path[1:] / FILE, "300")
            return time.monotonic() > deadline or bool(rows(observer.snapshot(), path))

        wait_for(seen, "a write is seen")
        evidence = observer.close_window()
    assert rows(evidence, path) != []


def test_a_flood_is_counted(tracing: Ledger) -> None:
    """2,500 writes of one process: what is not reported is counted, and is a blind spot of actions alone."""
    with claimed("flood", tracing) as (path, observer):
        descriptor = os.open(CPU / path[1:] / FILE, os.O_WRONLY)
        for number in range(2500):
            os.pwrite(descriptor, str(100 + number % 7).encode(), 0)
        os.close(descriptor)
        evidence = observer.close_window()
    dropped = evidence.coverage.control_writes_dropped
    assert len(rows(evidence, path)) + dropped == 2500
    assert dropped > 0
    (spot,) = [one for one in evidence.coverage.blindness if "control files" in one.text]
    assert (spot.text, [str(witness) for witness in spot.witnesses]) == (
        f"{dropped} writes to control files were not reported",
        ["actions"],
    )


WITHOUT_FILES = tuple(one for one in WITNESSES if one is not Files)
"""The reader of control files asks what was written to; where it does not, a test can."""


@contextlib.contextmanager
def asking(name: str, ledger: Ledger) -> Iterator[tuple[str, WriteWitness]]:
    """Make a cgroup with a claim, whose writes the test alone asks about."""
    with (
        both(f"pinproof-{name}-{os.getpid()}") as path,
        observing(
            ClaimSet(claims=(Claim(name="db", cgroup=path),)), ledger=ledger, witnesses=WITHOUT_FILES
        ) as observer,
    ):
        yield path, observer.witness(WriteWitness)


def heard(witness: WriteWitness) -> set[str]:
    """Wait for the word of a write; return the cgroups that it was about."""
    found = set[str]()

    def anything() -> bool:
        found.update(witness.written() or ())
        return bool(found)

    wait_for(anything, "the word of a write")
    return found


def test_what_was_written_to_is_known_at_once(tracing: Ledger) -> None:
    """By the program, or where the kernel refuses it by the kernel's notices: the cgroup itself, and one above it."""
    with asking("told", tracing) as (path, witness):
        assert witness.written() is not None
        for cgroup in (path, path.rpartition("/")[0]):
            write(CPU / cgroup[1:] / FILE, "300")
            assert heard(witness) == {cgroup}


def test_after_a_flood_nothing_relies_on_it(tracing: Ledger) -> None:
    """A record was dropped: for a while not every write is known, and all files are read once a second."""
    with asking("flood", tracing) as (path, witness):
        if witness.notices is not None:
            pytest.skip("the kernel takes no program at the return of cgroup_file_write(): its notices have no limit")
        assert witness.written() is not None
        file = os.open(CPU / path[1:] / FILE, os.O_WRONLY)
        try:
            for number in range(tracing.options.max_writes * (os.cpu_count() or 1) + 1):
                os.pwrite(file, str(100 + number % 2).encode(), 0)
        finally:
            os.close(file)
        assert witness.side.dropped() > 0
        assert witness.written() is None
        assert witness.written() is None


LATE_S = 0.3


def test_what_changes_a_state_file_is_named_although_it_has_ended(tracing: Ledger, tmp_path: Path) -> None:
    """In its place, renamed there, made and removed; events that are read late have the name that it ended under.

    Other files of the folder, and what nothing has changed, are none of it.
    """
    state = tmp_path / "cpu_manager_state"
    state.write_text("old")
    with observing(ClaimSet(claims=()), ledger=tracing) as observer:
        observer.watch_state_files(tmp_path)
        with observer.lock:  # what hears does no chores meanwhile
            before = time.monotonic_ns()
            pids = [
                called("sh", "-c", 'echo 1 > "$0"', state),
                called("sed", "-i", "s/1/2/", state),
                called("touch", tmp_path / "memory_manager_state"),
                called("touch", tmp_path / "config.yaml"),
                called("rm", tmp_path / "memory_manager_state"),
            ]
            state.write_text("own")
            after = time.monotonic_ns()
            time.sleep(LATE_S)
        observer.open_window()
        evidence = observer.close_window()
        observer.open_window()
        state.write_text("again")
        inside = observer.close_window()
    last = evidence.state_writes
    assert last is not None
    assert [(row.file, row.did, row.pid, row.comm, row.own) for row in last] == [
        ("memory_manager_state", "removed", pids[4], "rm", False),
        ("cpu_manager_state", "written", os.getpid(), last[1].comm, True),
    ]
    assert before <= last[0].at_ns + evidence.start_monotonic_ns < last[1].at_ns + evidence.start_monotonic_ns
    assert last[1].at_ns + evidence.start_monotonic_ns <= after + 15_000_000
    assert inside.state_writes is not None
    assert [(row.did, row.at_ns >= 0) for row in inside.state_writes[-2:]] == [("removed", False), ("written", True)]


def called(*command: str | Path) -> int:
    """Run a program to its end; return its number."""
    with subprocess.Popen(command) as work:
        assert work.wait() == 0
    return work.pid
