"""A tree of texts says what the same tree on a disk says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolkit.sources.edited import capture
from toolkit.errors import InputError
from toolkit.host.sysfs import ATTRIBUTE_BYTES, SysTree
from toolkit.host.text_tree import TextTree
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet.machine import capture_topology

FILES = {
    "sys/cpu/cpu0/id": "0\n",
    "sys/cpu/cpu10/id": "ten\n",
    "sys/cpu/cpu2/topology/core": "3\n",
    "sys/online": "0\n",
}
LINKS = {"sys/node/node0/cpu2": "sys/cpu/cpu2", "sys/cpu/cpu2/node0": "sys/node/node0"}
PATHS = (
    *("", "sys", "/sys/cpu", "sys/cpu/", "sys/cpu/cpu1", "sys/cpu/cpu2", "sys/cpu/cpu0/id", "sys/cpu/cpu10/id"),
    *("sys/cpu/cpu0/id/x", "sys/node", "sys/node/node0", "sys/node/node0/cpu2", "sys/node/node0/cpu2/topology/core"),
    *("sys/cpu/cpu2/node0/cpu2/node0/cpu2/topology/core", "sys/online", "nothing", "sys/node/node0/cpu1"),
)


def written(root: Path, files: dict[str, str], links: dict[str, str]) -> SysTree:
    """The same on a disk."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    for path, target in links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(f"/{target}")
    return SysTree(root)


@pytest.mark.parametrize("path", PATHS)
def test_it_says_what_a_disk_says(tmp_path: Path, path: str) -> None:
    """Of files, folders, links between folders, what goes through a file, and nothing."""
    disk, text = written(tmp_path, FILES, LINKS), TextTree("here", FILES, LINKS)
    for ask in ("read", "name", "names", "exists", "is_folder", "integer", "cpu_list"):
        assert getattr(text, ask)(path) == getattr(disk, ask)(path), ask
    assert text.numbered(path, "cpu") == disk.numbered(path, "cpu")
    assert text.problems == disk.problems
    assert not text.live


@pytest.mark.parametrize("more", ["sys/online/x", "sys/cpu", "sys/node/node0/cpu2", "sys/node/node0/cpu2/x"])
def test_a_path_that_is_two_things_is_refused(more: str) -> None:
    """A file in a file, or in place of a folder or of a link."""
    with pytest.raises(InputError, match=r"^here: .* is two things at once"):
        TextTree("here", {**FILES, more: ""}, LINKS)


def test_a_text_that_no_kernel_writes_is_refused() -> None:
    """As a file of that size is."""
    with pytest.raises(InputError, match=r"^here/x: more than"):
        TextTree("here", {"x": "x" * (ATTRIBUTE_BYTES + 1)}, {}).read("x")


@pytest.mark.parametrize("name", ["B1-4", "A-3"])
def test_a_capture_is_the_machine_of_its_lines(tmp_path: Path, name: str) -> None:
    """Put back on a disk, with the links between nodes and CPUs, they are the same machine to every reader."""
    sysfs = capture(name)["sysfs.txt"].decode()
    lines = [line.partition(": ") for line in sysfs.splitlines() if "/devices/system/" in line]
    files = {path.lstrip("/"): text.replace(" | ", "\n") + "\n" for path, _, text in lines}
    links = {}
    for path, text in files.items():
        node = path.removesuffix("/cpulist")
        for cpu in CpuSet.parse(text) if node != path else ():
            own = f"sys/devices/system/cpu/cpu{cpu}"
            if any(one.startswith(f"{own}/") for one in files):
                links |= {f"{node}/cpu{cpu}": own, f"{own}/{Path(node).name}": node}
    written(tmp_path, files, links)
    assert links
    assert capture_topology(NodeReading(sysfs=sysfs), name) == read_topology(tmp_path)
