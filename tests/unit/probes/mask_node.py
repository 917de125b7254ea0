"""A kernel's list of tasks, made up, beside a /proc that says the same or not."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

from probes.masks.iterator import Piece, TaskIterator
from probes.masks.records import Known, Layout
from probes.masks.sample import Sample
from probes.masks.scan_method import ScanMethod
from probes.masks.strays import Strays
from probes.masks.threads import ThreadMasks
from probes.subjects import Subject
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet

LAYOUT = Layout(cpus=70, nodes=2)


def record(tid: int, cpus: int = 1, ident: int = 1, **other: object) -> bytes:
    """Return what the kernel side writes of a thread: on CPU 0 and node 0 unless said."""
    values = {"tgid": tid, "policy": 0, "flags": 0, "comm": b"x", "mems": 1, **other}
    words = (cpus & (1 << 64) - 1, cpus >> 64, values["mems"])
    return struct.pack(
        "=6I16s3Q", ident, tid, values["tgid"], values["policy"], values["flags"], 0, values["comm"], *words
    )


class Tasks(TaskIterator):
    """A list of tasks that a test writes. ``during``: what happens while it is read."""

    def __init__(self) -> None:
        self.known = Known(LAYOUT, 100)
        self.records: list[bytes] = []
        self.passes = 0

    @property
    def usable(self) -> bool:
        """As on a kernel that has taken the program."""
        return True

    def read(self) -> list[Piece]:
        """Return the records, in pieces of two."""
        self.passes += 1
        self.during()
        return [(100 + at, b"".join(self.records[at : at + 2])) for at in range(0, len(self.records), 2)]

    def during(self) -> None:
        """Nothing."""


class Node:
    """Claims ``/a`` and ``/a/b`` on CPU 0 with threads in a /proc, and the list of tasks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hierarchy = Hierarchy(mode=Mode.V2, unified=root / "cgroup", root=root)
        claim = Claim(name="a", cgroup="/a", cpus=CpuSet.parse("0"))
        self.outer = Subject(claim=claim, cgroup_id=1, slot=0, ident=1, cpus=CpuSet.parse("0"), since_ns=0)
        self.inner = replace(self.outer, claim=replace(claim, name="b", cgroup="/a/b"), ident=2)
        self.subjects = [self.outer]
        self.tasks = Tasks()
        self.moves: tuple[int, ...] = ()
        self.method = ScanMethod(Strays(self.hierarchy, root), Sample(self.hierarchy, root), self.tasks)
        self.open()
        self.proc(1, "/")

    def open(self) -> None:
        """Begin with a window."""
        self.masks = ThreadMasks(self.hierarchy, self.root, 0, 0, 0, lambda: self.moves, self.method)

    def proc(self, tid: int, cgroup: str = "/a", cpus: str = "0", name: str = "x") -> None:
        """Let /proc say so of a thread."""
        folder = self.root / f"proc/{tid}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = f"Name:\t{name}\nTgid:\t{tid}\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0\n"
        (folder / "status").write_text(lines)
        (folder / "cgroup").write_text(f"0::{cgroup}\n")
        (folder / "stat").write_text(f"{tid} (x) R {'0 ' * 18}100 0\n")

    def lists(self, *tids: int, cgroup: str = "a") -> None:
        """Let a cgroup list these threads."""
        folder = self.root / "cgroup" / cgroup
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.threads").write_text("".join(f"{tid}\n" for tid in tids))

    def scan(self, times: int = 1) -> None:
        """Scan, by the list whatever it costs."""
        for _ in range(times):
            self.method.threads = 1 << 20
            self.masks.scan_all(self.subjects, lambda: False)

    def seen(self) -> dict[tuple[str, int, str], int]:
        """Return how often each thread of a claim was read with which CPUs."""
        return {(row.claim, row.tid, str(row.cpus_allowed)): row.times_seen for row in self.masks.values()}
