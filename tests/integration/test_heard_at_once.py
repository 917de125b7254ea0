"""What ends the listener's wait: rounds that nothing ends are an hour apart here, and no file is read of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from probes import listener
from probes.cgroups import file_reader
from probes.cgroups.file_reader import FileReader
from probes.cgroups.files import Files
from probes.cgroups.identity import Identities
from probes.loaded import observing
from probes.observer import Observer
from probes.switches.ledger import Ledger
from probes.writes.witness import WriteWitness
from tests.integration.apply_support import container, request
from tests.integration.probe_lab import cgroup, wait_for
from toolkit.apply.sandbox import sandbox
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.sandbox import WorkloadKind

pytestmark = [pytest.mark.integration, pytest.mark.beside]

HOUR_S = 3600.0


class SeldomFiles(Files):
    """Reads by itself once an hour."""

    period_s = HOUR_S


@contextmanager
def idle(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, *claimed: str) -> Iterator[tuple[Observer, list[int]]]:
    """Watch cgroups until nothing is to be done; yields the observer and a list with an entry for each round of
    the reader of files.
    """
    rounds: list[int] = []

    def counted(self: FileReader, stopped: Callable[[], bool]) -> float:
        rounds.append(1)
        return round_(self, stopped)

    round_ = FileReader.round
    monkeypatch.setattr(FileReader, "round", counted)
    monkeypatch.setattr(listener, "IDLE_MS", HOUR_S * 1000)
    monkeypatch.setattr(file_reader, "IDLE_S", HOUR_S)
    claims = ClaimSet(claims=tuple(Claim(name=one, cgroup=one) for one in claimed))
    with observing(claims, ledger=ledger, witnesses=(SeldomFiles, WriteWitness, Identities)) as observer:
        observer.open_window()
        wait_for(lambda: rests(observer), "nothing is left to do")
        sweep = observer.witness(SeldomFiles)._reader._sweep  # type: ignore[union-attr]
        sweep.longest_s, sweep.costs_s = 2 * HOUR_S, (HOUR_S, HOUR_S)  # as of hundreds of claims: writes are relied on
        ledger.wake()  # what is to be done because a window began, is done in this round
        wait_for(lambda: not observer.witness(SeldomFiles)._others and rests(observer), "and after it")
        yield observer, rounds


def rests(observer: Observer) -> bool:
    """Whether the reader of files has nothing to do."""
    reader = observer.witness(SeldomFiles)._reader
    return reader is not None and reader.rests


def test_a_claimed_cgroup_that_is_deleted_or_made(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program wakes the listener, although nothing is sent."""
    with (
        cgroup(f"pinproof-heard-{os.getpid()}") as place,
        idle(ledger, monkeypatch, place) as (observer, _),
    ):
        directory = cgroupfs.identity_dir(observer.hierarchy, place)
        directory.rmdir()
        wait_for(lambda: observer.subjects[place].gone, "its end")
        directory.mkdir()
        wait_for(lambda: not observer.subjects[place].gone, "its begin")


def test_a_control_file_that_is_written(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of several writes, by the program that sees it or by the kernel's notice."""
    with sandbox(request(container("db", WorkloadKind.QUIET)), run_id=f"written-{os.getpid()}") as live:
        (place,) = [one.cgroup for one in live.value.containers]
        with idle(ledger, monkeypatch, place) as (observer, rounds):
            for quota_us in (20_000, 30_000):
                wait_for(lambda: rests(observer), "no more writes are awaited")
                before = len(rounds)
                live.set_bandwidth("db", quota_us, 100_000)
                wait_for(lambda: len(rounds) > before, "the file is read")  # noqa: B023 called at once
