"""Whose files were written, by the program's records: what was dropped is known for a while."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.cgroups.bandwidth import lineage
from probes.subjects import Subject
from probes.writes import witness as written
from probes.writes.directories import AGAIN_NS, SETUP_NS
from probes.writes.witness import WriteWitness
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet


class _Side:
    """What the kernel side says: the real one is asked in ``test_probe_writes.py``, where a kernel has it."""

    complete = observed = True

    def __init__(self) -> None:
        self.numbers, self.lost, self.directories = set[int](), 3, self

    def dropped(self) -> int:
        return self.lost

    @property
    def has_written(self) -> bool:
        return bool(self.numbers)

    def take_written(self) -> set[int]:
        numbers, self.numbers = self.numbers, set()
        return numbers

    def update(self, key: bytes, value: bytes) -> bool:
        return bool(key and value)


@pytest.fixture
def side() -> _Side:
    return _Side()


@pytest.fixture
def asked(side: _Side, tmp_path: Path) -> WriteWitness:
    """A witness of one claim, in a tree of folders."""
    (tmp_path / "pods/db").mkdir(parents=True)
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    windows = SimpleNamespace(
        ledger=SimpleNamespace(side=lambda _kind: side),
        hierarchy=Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path),
        root=tmp_path,
        lock=threading.RLock(),
    )
    made = WriteWitness(cast("Any", windows))
    claim = Claim(name="db", cgroup="/pods/db", cpus=CpuSet.of([0]))
    made.claiming(Subject(claim=claim, cgroup_id=1, slot=0, ident=0, cpus=CpuSet.of([0]), since_ns=0))
    return made


def test_records_name_the_cgroup(side: _Side, asked: WriteWitness) -> None:
    """Once each; a number that no cgroup has any more is of none; what was lost before does not matter."""
    numbers = {name: number for number, name in asked.directories.names.items()}
    side.numbers = {numbers["/pods/db"], 99}
    assert asked.written() == {"/pods/db"}
    side.numbers = {numbers["/pods"]}
    assert asked.written() == {"/pods"}
    assert asked.written() == frozenset()


def test_what_was_dropped_is_not_known_for_a_while(
    side: _Side, asked: WriteWitness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is again, with what was heard meanwhile."""
    side.lost += 1
    side.numbers = set(asked.directories.names)
    assert [asked.written(), asked.written()] == [None, None]
    asked._deaf_until_ns = 0
    assert asked.written() == {"/pods/db", "/pods"}
    monkeypatch.setattr(written, "DEAF_NS", 0)
    side.lost += 1
    assert asked.written() == frozenset()


def test_without_room_for_a_directory_nothing_is_known(asked: WriteWitness) -> None:
    """Of which cgroup is the observer's blind spot already."""
    asked.records.full = True
    assert asked.written() is None


def test_directories_above_many_claims_are_looked_at_once(
    side: _Side, asked: WriteWitness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a sign each cgroup is looked at again when its time has come; not once more for each claim below it."""
    (tmp_path / "pods/web").mkdir()
    claim = Claim(name="web", cgroup="/pods/web", cpus=CpuSet.of([0]))
    subjects = [
        Subject(claim=one, cgroup_id=1, slot=0, ident=0, cpus=CpuSet.of([0]), since_ns=0)
        for one in (Claim(name="db", cgroup="/pods/db", cpus=CpuSet.of([0])), claim)
    ]
    asked.claiming(subjects[1])
    began_ns = time.monotonic_ns()
    looked = list[str]()
    real = asked.directories._look
    monkeypatch.setattr(
        asked.directories, "_look", lambda cgroup, now_ns: (looked.append(cgroup.path), real(cgroup, now_ns))
    )

    def round_at(after_ns: int) -> list[str]:
        looked.clear()
        for one in subjects:
            levels = lineage(one.claim.cgroup)
            asked.directories.look_again(one, levels, began_ns + after_ns)
        return list(looked)

    assert round_at(SETUP_NS) == ["pods/db", "pods", "pods/web", "pods"], "until one look came late enough"
    assert round_at(AGAIN_NS) == []
    assert round_at(SETUP_NS + AGAIN_NS) == ["pods/db", "pods", "pods/web"]


def test_a_write_stirs_until_it_is_asked_for(asked: WriteWitness, side: _Side) -> None:
    """The reader of files sleeps until then; by the kernel's notices, too, where the program is refused."""
    assert not asked.stirred()
    side.numbers = {11}
    assert asked.stirred()
    asked.written()
    assert not asked.stirred()
    side.numbers = {11}
    asked.notices = cast("Any", SimpleNamespace(waiting=lambda: False))
    assert not asked.stirred()
