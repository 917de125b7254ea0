"""Public captures in which somebody evades a promise, or hides: no healthy node says that, and it must be reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolkit.sources.edited import capture, failed, part, rows
from tests.unit.toolkit.sources.made_node import KUBEPODS, write
from toolkit.sources.kubelet import live_files

BU = "bu-node1/main"


@pytest.mark.parametrize("start", ["B1-3", "D-4"])
@pytest.mark.parametrize("name", [BU, "bu-node1/(pod)"])
def test_a_burst_that_nobody_asked_for_is_reported(start: str, name: str) -> None:
    """No kubelet sets one: with it a container uses more than its quota. On v1 and v2."""
    files = capture(start)
    base = failed(files)
    cgroup = rows(files)[name]["cgroup"]
    if "cgroup.json" in files:
        with part(files, "cgroup.json") as tree:
            tree["cpu"][cgroup]["cpu.cfs_burst_us"] = "20000"
    else:
        files[f"cgroup{cgroup}/cpu.max.burst"] = b"20000"
    more = {key: why for key, why in failed(files).items() if key not in base}
    assert set(more) == {("applied", name)}
    assert "the burst was 20000, promised 0" in more["applied", name]


def test_a_capture_holds_the_burst_of_v1(tmp_path: Path) -> None:
    """As it holds that of v2."""
    for hierarchy, name in (("cpu", "cpu.cfs_burst_us"), ("cpuset", "cpuset.cpus")):
        write(tmp_path, f"{KUBEPODS.replace('cgroup/', f'cgroup/{hierarchy}/')}/pod1/{name}", "20000\n")
    found = live_files.cgroup_files(tmp_path / "sys/fs/cgroup")
    assert found["cgroup/cpu/kubepods/pod1/cpu.cfs_burst_us"] == b"20000\n"
