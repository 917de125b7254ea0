"""Readings of control files: which of them say the same, and which say nothing."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

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
