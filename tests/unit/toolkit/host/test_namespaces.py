"""Which views of the machine are not the probes'."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolkit.host.sysroots import write
from toolkit.host.cgroup_mounts import Hierarchy, Mode, detect
from toolkit.host.namespaces import FIRST, read_views


def host(tmp_path: Path, offsets: str = "monotonic 0 0\nboottime 0 0\n", **numbers: int) -> Path:
    """A machine whose process is in these namespaces."""
    write(tmp_path, {"proc/self/timens_offsets": offsets})
    for kind, number in (FIRST | numbers).items():
        link = tmp_path / "proc/self/ns" / kind
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"{kind}:[{number}]")
    return tmp_path


def wrong(root: Path, hierarchy: Hierarchy | None = None) -> dict[str, str]:
    return {view.name: view.wrong for view in read_views(hierarchy, root) if view.wrong}


def test_the_hosts_own(tmp_path: Path) -> None:
    """Nothing is wrong, and a kernel without namespaces has no foreign ones."""
    assert wrong(host(tmp_path / "a")) == {}
    assert wrong(tmp_path / "nothing") == {}


def test_a_foreign_pid_namespace(tmp_path: Path) -> None:
    """Its number is named."""
    assert "(4026532281)" in wrong(host(tmp_path, pid=4026532281))["pid-namespace"]


@pytest.mark.parametrize(
    ("offsets", "told"),
    [
        ("monotonic 1000 0\nboottime 0 0\n", "monotonic +1000 s"),
        ("monotonic 0 0\nboottime -5 500000000\n", "boottime -4.5 s"),
        ("monotonic 0 1\nboottime 0 0\n", "monotonic +1e-09 s"),
    ],
)
def test_a_foreign_clock(tmp_path: Path, offsets: str, told: str) -> None:
    """Only one that tells another time matters; what children will have does not."""
    assert told in wrong(host(tmp_path / "a", offsets, time=4026532281))["time-namespace"]
    assert wrong(host(tmp_path / "b", offsets)) == {}
    assert wrong(host(tmp_path / "c", time=4026532281)) == {}


@pytest.mark.parametrize(("seen", "partial"), [("/", False), ("/docker/1", True), ("/../..", True)])
def test_a_part_of_the_tree(tmp_path: Path, seen: str, partial: bool) -> None:
    """A bind mount of a part, and the host's tree seen from another cgroup namespace."""
    write(tmp_path, {"proc/self/mountinfo": f"31 1 0:27 {seen} /cg rw - cgroup2 cgroup2 rw"})

    assert (detect(tmp_path).partial == {tmp_path / "cg"}) is partial


def test_a_root_that_is_not_the_hierarchys(tmp_path: Path) -> None:
    """Mounted inside of a cgroup namespace a part says that it is the whole: its inode does not."""
    (tmp_path / "cg").mkdir()
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path / "cg")

    assert f"{tmp_path / 'cg'} is a part" in wrong(tmp_path, hierarchy)["cgroup-tree"]
