"""Memory's own decoder, and when pages are read: alone, without a kernel."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from probes.memory.decoder import MemoryReading
from probes.memory.pages import PageSampler
from probes.readings import Readings
from tests.unit.probes.readings import CLAIM, FRAME
from toolkit.host.cgroup_mounts import Hierarchy, Mode
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence.memory import MemoryEvidence
from toolkit.model.placement import DevicePlace, HugetlbUse, PageReading

ROWS = MemoryReading(
    pages=(PageReading(claim="db", processes=2, unread=1),),
    hugetlb=(HugetlbUse(claim="db", page_bytes=2 << 20, limit_bytes=-1),),
    devices=(DevicePlace(bdf="0000:00:1f.2", present=True, numa_node=-1),),
)


def test_rows_are_given_as_they_were_read() -> None:
    """Nothing is summed, left out or made up: a limit that is none and a node that is not known stay what they are."""
    part = ROWS.decode(Readings(FRAME, ()))

    assert part.evidence == MemoryEvidence(pages=ROWS.pages, hugetlb=ROWS.hugetlb, devices=ROWS.devices)
    assert part.coverage is None
    assert part.spots == ()
    assert MemoryReading().decode(Readings(FRAME, ())).evidence == MemoryEvidence(pages=(), hugetlb=(), devices=())


def test_pages_are_not_read_at_every_look(tmp_path: Path) -> None:
    """Reading them takes a lock of each process: a look soon after gets the same, a window's end new ones."""
    cgroup = tmp_path / "pods/db"
    cgroup.mkdir(parents=True)
    (cgroup / "cgroup.procs").write_text(f"{os.getpid()}\n")
    hierarchy = Hierarchy(root=Path("/"), mode=Mode.V2, unified=tmp_path)
    sampler, claims = PageSampler(), (replace(CLAIM, mems=CpuSet.parse("0")),)
    (first,) = sampler.latest(hierarchy, claims, Path("/"), now=False)
    (cgroup / "cgroup.procs").write_text("")

    assert first.processes + first.unread == 1
    assert sampler.latest(hierarchy, claims, Path("/"), now=False) == (first,)
    assert sampler.latest(hierarchy, claims, Path("/"), now=True)[0].processes == 0
