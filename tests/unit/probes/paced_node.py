"""Two claims in a tree of files, and what reads them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from probes.cgroups import file_reader
from probes.cgroups.control_files import ControlFiles
from probes.cgroups.file_reader import FileReader
from probes.cgroups.known_files import KnownFiles
from probes.observer import Observer
from probes.options import ObserveOptions
from probes.subjects import Subject
from probes.switches.ledger import Ledger
from probes.window import Window
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.host.kept_files import NONE_KEPT
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet

FILES_OF = {"cpuset.cpus": "0-1", "cpuset.cpus.effective": "0-1", "cpu.max": "50000 100000"}
CLAIMS = ("/pods/one/db", "/pods/two/web")
ALL = (*CLAIMS, "/pods/one", "/pods/two", "/pods")


class PacedNode:
    """Two claims in a tree of files, and what reads them. A sweep comes never, once it is known what it costs."""

    closed = False

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(file_reader, "SHARE", 1e-12)
        monkeypatch.setattr(file_reader, "LONGEST_S", 1e6)
        (root / "cgroup.controllers").write_text("cpuset cpu\n")
        for cgroup in ALL:
            (root / cgroup[1:]).mkdir(parents=True, exist_ok=True)
            for name, text in FILES_OF.items():
                (root / cgroup[1:] / name).write_text(text + "\n")
        self.root, self.seen = root, list[str]()
        self.observer = Observer(ClaimSet(claims=()), root, Ledger(root, ObserveOptions(), ()))
        self.observer.hierarchy = Hierarchy(root=root, mode=Mode.V2, unified=root)
        self.observer.window = cast("Window", self)
        for slot, cgroup in enumerate(CLAIMS):
            self.claim(cgroup, slot)
        known = KnownFiles(self.observer.hierarchy, NONE_KEPT)
        self.files = ControlFiles(known, {one: known.read(one) for one in ALL}, time.monotonic_ns())
        self.written: frozenset[str] | None = frozenset()
        self.misses_none = True
        self.reader = FileReader(
            self.observer,
            lambda _window: self.files,
            known.forget,
            lambda: self.written,
            period_s=1e-3,
            misses_none=lambda: self.misses_none,
        )
        self.until(lambda: self.files.readings >= 2)
        monkeypatch.setattr(self.files, "look", self.look(self.files.look))

    def claim(self, cgroup: str, slot: int) -> None:
        claim = Claim(name=cgroup, cgroup=cgroup, cpus=CpuSet.of([0]))
        self.observer.subjects[cgroup] = Subject(
            claim=claim, cgroup_id=7, slot=slot, ident=slot, cpus=CpuSet.of([0]), since_ns=0, reported=True
        )

    def look(self, real: Any) -> Any:
        def looks(cgroup: str) -> None:
            self.seen.append(cgroup)
            real(cgroup)

        return looks

    def until(self, condition: Any) -> None:
        deadline = time.monotonic() + 120.0
        while not condition():
            assert time.monotonic() < deadline
            self.reader.round(lambda: False)

    def quiet(self) -> None:
        """Let nothing be new any more, and nothing above be due."""
        self.reader._fresh = {}
        self.reader._often.period_s = 1e6
        self.seen.clear()

    def due(self) -> None:
        """Let the time of a sweep have come."""
        self.reader._sweep.last_s -= 2 * file_reader.LONGEST_S

    def again(self, subject: Subject) -> None:
        """Counters: none here."""
