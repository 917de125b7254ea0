"""Counters and lists of cgroups, read again and again: of which directories they are, and what is opened."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from toolkit.host import cgroupfs, kept_files
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.host.kept_files import KeptFiles


@pytest.fixture
def v2(tmp_path: Path) -> Hierarchy:
    (tmp_path / "pod/db").mkdir(parents=True)
    (tmp_path / "pod/db/cpu.stat").write_text("usage_usec 1500\nsystem_usec 500\nnr_periods 10\n")
    return Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path)


@pytest.fixture
def hybrid(tmp_path: Path) -> Hierarchy:
    """CPU time and throttling of one v1 hierarchy."""
    both = tmp_path / "cpu,cpuacct"
    (both / "pod").mkdir(parents=True)
    (both / "pod/cpu.stat").write_text("nr_periods 3\nnr_throttled 1\nthrottled_time 12345\n")
    (both / "pod/cpuacct.usage").write_text("424242\n")
    (both / "pod/cpuacct.usage_sys").write_text("4242\n")
    (tmp_path / "unified/pod").mkdir(parents=True)
    (tmp_path / "unified/pod/cpu.stat").write_text("usage_usec 9\n")
    legacy = (("cpu", both), ("cpuacct", both))
    return Hierarchy(root=tmp_path, mode=Mode.HYBRID, unified=tmp_path / "unified", legacy=legacy)


def test_counters_of_v2_have_one_directory(v2: Hierarchy) -> None:
    """0: there is none."""
    read = cgroupfs.CpuCounters(v2).read
    inode = (v2.root / "pod/db").stat().st_ino
    assert read("/pod/db")[1] == (inode, inode)
    assert read("/gone")[1] == (0, 0)


def test_counters_of_hybrid_may_have_none_of_their_own(hybrid: Hierarchy) -> None:
    """Usage, then throttling; below 0: usage of the v2 hierarchy, although a v1 hierarchy counts it."""
    read = cgroupfs.CpuCounters(hybrid).read
    place = hybrid.root / "cpu,cpuacct/pod"
    assert read("/pod")[1] == (place.stat().st_ino, place.stat().st_ino)
    shutil.rmtree(place)
    stat, ids = read("/pod")
    assert ids == (-(hybrid.root / "unified/pod").stat().st_ino, 0)
    assert (stat.usage_ns, stat.nr_periods) == (9_000, None)


def test_counters_are_read_without_opening_them_again(hybrid: Hierarchy, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they say by then is what is returned, whatever was known of them."""
    monkeypatch.setattr(kept_files, "_is_cgroup", lambda _folder: True)
    with KeptFiles() as kept:
        read = cgroupfs.CpuCounters(hybrid, kept).read
        assert (read("/pod")[0].usage_ns, kept.count) == (424_242, 3)
        (hybrid.root / "cpu,cpuacct/pod/cpuacct.usage").write_text("424243\n")
        monkeypatch.setattr(os, "open", None)
        assert read("/pod")[0].usage_ns == 424_243


def test_a_refusal_is_no_cgroup_that_is_gone(v2: Hierarchy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without descriptors nothing is known of its counters; that it ended would be a lie."""

    def refused(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    read = cgroupfs.CpuCounters(v2).read
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(OSError, match="Too many open files"):
        read("/pod/db")


def test_a_long_list_is_read_to_its_end(v2: Hierarchy, monkeypatch: pytest.MonkeyPatch) -> None:
    """One read gives what fits into a page of the kernel's."""
    many = tuple(range(1000, 2000))
    (v2.root / "pod/db/cgroup.procs").write_text("".join(f"{pid}\n" for pid in many))
    monkeypatch.setattr(kept_files, "_is_cgroup", lambda _folder: True)
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real(fd, min(size, 4096), at))
    with KeptFiles() as kept:
        for _ in range(2):
            assert cgroupfs.pids(v2, "/pod/db", kept) == many


def test_what_others_said_is_forgotten(hybrid: Hierarchy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cgroup the last reading alone is known, and only as long as it is watched."""
    monkeypatch.setattr(kept_files, "_is_cgroup", lambda _folder: True)
    with KeptFiles() as kept:
        counters = cgroupfs.CpuCounters(hybrid, kept)
        for periods in range(3, 9):
            (hybrid.root / "cpu,cpuacct/pod/cpu.stat").write_text(f"nr_periods {periods}\n")
            assert counters.read("/pod")[0].nr_periods == periods
        assert len(counters._said) == 1
        counters.keep(["/pod"])
        assert (len(counters._said), kept.count) == (1, 3)
        counters.keep([])
        assert (len(counters._said), kept.count) == (0, 0)
