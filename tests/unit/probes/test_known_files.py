"""Readings of control files: which of them say the same, and which say nothing; those of many in one round."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from probes.cgroups.known_files import KnownFiles
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.host.kept_files import GROUPS_AT_ONCE, NONE_KEPT
from toolkit.model.cgroup_manager import CgroupManager
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles

NOTHING = CgroupFiles(cgroup="/a", at_ns=1, manager=CgroupManager.CGROUPFS)
SETS = ("cpus", "cpus_effective", "mems", "mems_effective")
READ = [one.name for one in fields(CgroupFiles) if one.name not in ("cgroup", "at_ns", "manager")]


@pytest.mark.parametrize("name", READ)
def test_every_file_counts(name: str) -> None:
    """One that could be read is enough: the cgroup is there, and says something else than before."""
    value: dict[str, Any] = {name: CpuSet() if name in SETS else 0}
    found = replace(NOTHING, **value)

    assert NOTHING.empty
    assert not found.empty
    assert found.says(replace(found, at_ns=7))
    assert not found.says(NOTHING)
    assert not found.says(replace(found, cgroup="/b"))
    assert not found.says(replace(found, manager=CgroupManager.SYSTEMD))


def test_more_cgroups_than_are_read_together_are_all_read(tmp_path: Path) -> None:
    """Each has its own values: two whole groups and the beginning of a third."""
    hierarchy = Hierarchy(
        root=tmp_path, mode=Mode.HYBRID, unified=tmp_path / "unified", legacy=(("cpuset", tmp_path / "cpuset"),)
    )
    cgroups = {f"/c{number:02}": number for number in range(2 * GROUPS_AT_ONCE + 1)}
    for cgroup, number in cgroups.items():
        folder = tmp_path / "cpuset" / cgroup[1:]
        folder.mkdir(parents=True)
        (folder / "cpuset.cpus").write_text(f"{number}\n")
    found = KnownFiles(hierarchy, NONE_KEPT).read_all(cgroups)

    assert {cgroup: files.cpus for cgroup, files in found.items()} == {
        cgroup: CpuSet.of([number]) for cgroup, number in cgroups.items()
    }


def test_a_controller_that_came_is_read_from_the_next_window_on(tmp_path: Path) -> None:
    """Where files are is found out once for all cgroups of a window, not for each."""
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path)
    offered = tmp_path / "cgroup.controllers"
    offered.write_text("cpuset\n")
    for cgroup in ("a", "b"):
        (tmp_path / cgroup).mkdir()
        (tmp_path / cgroup / "cpuset.cpus").write_text("0\n")
        (tmp_path / cgroup / "cpu.max").write_text("50000 100000\n")
    known = KnownFiles(hierarchy, NONE_KEPT)
    before = known.read_all(("/a", "/b"))
    offered.write_text("cpuset cpu\n")
    assert known.names("/a") == ["cpuset.cpus", "cpuset.mems", "cpuset.cpus.effective", "cpuset.mems.effective"]

    known.keep(("/a",))

    assert [before[cgroup].quota_us for cgroup in ("/a", "/b")] == [None, None]
    assert {"cpu.max", "cpuset.cpus"} <= {*known.names("/a")}
    assert known.read_all(("/a", "/b"))["/b"].quota_us == 50_000
    again = known._places["/a"]
    known.keep(("/a",))
    assert known._places == {"/a": again}, "nothing came: what is known stays, of those that are kept"
