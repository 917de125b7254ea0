"""The reader of the hugetlb controller: v2 and v1 names, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.host.cgroup_mounts import Hierarchy, Mode
from toolkit.host.hugetlb import read_hugetlb, size_name
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.placement import HugetlbUse

MB2 = 2 << 20


def write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("size", "name"), [(64 << 10, "64KB"), (MB2, "2MB"), (512 << 20, "512MB"), (1 << 30, "1GB"), (100, None), (0, None)]
)
def test_sizes(size: int, name: str | None) -> None:
    """Sizes as the kernel writes them in file names."""
    assert size_name(size) == name


def test_v2(tmp_path: Path) -> None:
    """The unified hierarchy."""
    (tmp_path / "cgroup.controllers").write_text("cpu hugetlb\n")
    write(
        tmp_path / "a",
        {
            "hugetlb.2MB.max": "4194304\n",
            "hugetlb.2MB.current": "2097152\n",
            "hugetlb.2MB.events": "max 7\n",
            "hugetlb.2MB.numa_stat": "total=2097152 N0=0 N1=2097152\n",
        },
    )
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path)

    assert read_hugetlb(hierarchy, "db", "/a", MB2) == HugetlbUse(
        claim="db",
        page_bytes=MB2,
        limit_bytes=2 * MB2,
        usage_bytes=MB2,
        failures=7,
        node_bytes={0: 0, 1: MB2},
    )


def test_v1(tmp_path: Path) -> None:
    """The v1 controller; of numa_stat the line with the descendants counts."""
    write(
        tmp_path / "a",
        {
            "hugetlb.1GB.limit_in_bytes": "9223372035781033984\n",
            "hugetlb.1GB.usage_in_bytes": "1073741824\n",
            "hugetlb.1GB.failcnt": "0\n",
            "hugetlb.1GB.numa_stat": "total=0 N0=0 N1=0\nhierarchical_total=1073741824 N0=1073741824 N1=0\n",
        },
    )
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.V1, unified=None, legacy=(("hugetlb", tmp_path),))

    found = read_hugetlb(hierarchy, "db", "/a", 1 << 30)

    assert (found.limit_bytes, found.usage_bytes, found.failures) == (-1, 1 << 30, 0)
    assert found.node_bytes == {0: 1 << 30, 1: 0}


def test_nothing_there(tmp_path: Path) -> None:
    """No controller, no file, no such size: every field is unknown."""
    none = Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path)
    some = Hierarchy(root=tmp_path, mode=Mode.V1, unified=None, legacy=(("hugetlb", tmp_path),))

    for hierarchy, size in ((none, MB2), (some, MB2), (some, 12)):
        assert read_hugetlb(hierarchy, "db", "/a", size) == HugetlbUse(claim="db", page_bytes=size)


def test_max_and_nonsense(tmp_path: Path) -> None:
    """No limit is -1; a file that holds no number is not read."""
    (tmp_path / "cgroup.controllers").write_text("hugetlb\n")
    write(tmp_path / "a", {"hugetlb.2MB.max": "max\n", "hugetlb.2MB.current": "lots\n", "hugetlb.2MB.numa_stat": "x"})
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path)

    found = read_hugetlb(hierarchy, "db", "/a", MB2)

    assert (found.limit_bytes, found.usage_bytes, found.node_bytes) == (-1, None, None)


@pytest.mark.parametrize("page", [64 << 10, MB2, 1 << 30])
def test_huge_limits(tmp_path: Path, page: int) -> None:
    """4Ei is a limit; the most that the counter holds, in whole huge pages, is none."""
    stem = f"hugetlb.{size_name(page)}"
    write(tmp_path / "a", {f"{stem}.usage_in_bytes": "0\n"})
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.HYBRID, unified=None, legacy=(("hugetlb", tmp_path),))

    for limit, read in ((4 << 60, 4 << 60), ((1 << 63) - page, NO_LIMIT)):
        (tmp_path / "a" / f"{stem}.limit_in_bytes").write_text(f"{limit}\n")
        assert read_hugetlb(hierarchy, "db", "/a", page).limit_bytes == read
