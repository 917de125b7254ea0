"""The least limit of memory that this process is under, in both kinds of hierarchies; too little is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import InputError
from toolkit.host.cgroup_mounts import Hierarchy, Mode
from toolkit.host.own_memory import NEED_BYTES, Limit, least_limit, require_memory


@pytest.fixture
def v1(tmp_path: Path) -> Hierarchy:
    """Make a v1 memory hierarchy in which we are in ``/pods/us``."""
    mount = tmp_path / "memory"
    (mount / "pods/us").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("5:cpu,cpuacct:/x\n4:memory:/pods/us\n0::/other\n")
    for folder in (mount, mount / "pods", mount / "pods/us"):
        (folder / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    return Hierarchy(root=tmp_path, mode=Mode.V1, unified=None, legacy=(("memory", mount),))


@pytest.fixture
def v2(tmp_path: Path) -> Hierarchy:
    """Make a v2 hierarchy in which we are in ``/us``."""
    mount = tmp_path / "unified"
    (mount / "us").mkdir(parents=True)
    (mount / "cgroup.controllers").write_text("cpu memory\n")
    (mount / "us/memory.max").write_text("max\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/us\n")
    return Hierarchy(root=tmp_path, mode=Mode.V2, unified=mount)


def test_the_least_limit_of_all_levels_counts(v1: Hierarchy, tmp_path: Path) -> None:
    """Of what is above, too."""
    above = tmp_path / "memory/pods/memory.limit_in_bytes"
    above.write_text("70000000\n")

    assert least_limit(v1, tmp_path) == Limit(70_000_000, above)


def test_no_limit_is_none(v2: Hierarchy, tmp_path: Path) -> None:
    """``max`` is no number, and the root has no such file."""
    assert least_limit(v2, tmp_path) is None
    assert least_limit(Hierarchy(root=tmp_path, mode=Mode.V1, unified=None), tmp_path) is None


def test_too_little_is_refused_with_file_and_need(v2: Hierarchy, tmp_path: Path) -> None:
    """A byte less than a watch needs; what it needs is enough."""
    file = tmp_path / "unified/us/memory.max"
    file.write_text(f"{NEED_BYTES}\n")
    require_memory(v2, tmp_path)
    file.write_text(f"{NEED_BYTES - 1}\n")

    with pytest.raises(InputError, match=rf"unified/us/memory.max.* MiB.*at least {NEED_BYTES >> 20} MiB"):
        require_memory(v2, tmp_path)
