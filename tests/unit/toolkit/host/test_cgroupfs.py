"""Readers of the cgroup file systems, on trees written down by hand in the kernel's formats."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.errors import HostUnsupportedError, InputError
from toolkit.host import cgroup_members, cgroupfs, procfs
from toolkit.host.cgroup_mounts import Hierarchy, Mode, detect
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence.cgroups import SIDE
from toolkit.text import names

V2 = "29 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = """31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
"""
UNIFIED = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    write(
        tmp_path,
        {
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
            "sys/fs/cgroup/pod/db/cpuset.cpus": "2-3\n",
            "sys/fs/cgroup/pod/db/cpuset.cpus.effective": "2\n",
            "sys/fs/cgroup/pod/db/cpuset.mems": "\n",
            "sys/fs/cgroup/pod/db/cpuset.mems.effective": "0-1\n",
            "sys/fs/cgroup/pod/db/cpu.max": "50000 100000\n",
            "sys/fs/cgroup/pod/db/cpu.max.burst": "10000\n",
            "sys/fs/cgroup/pod/db/cpu.weight": "59\n",
            "sys/fs/cgroup/pod/db/memory.max": "max\n",
            "sys/fs/cgroup/pod/db/cgroup.procs": "12\n7\n",
            "sys/fs/cgroup/pod/db/cgroup.threads": "12\n13\n7\n",
            "sys/fs/cgroup/pod/db/cpu.stat": (
                "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 10\nnr_throttled 4\n"
                "throttled_usec 77\nnr_bursts 2\nburst_usec 5\n"
            ),
            "sys/fs/cgroup/pod/db/child/cgroup.procs": "99\n",
            "sys/fs/cgroup/pod/db/child/cgroup.threads": "99\n",
        },
    )
    return tmp_path


@pytest.fixture
def hybrid(tmp_path: Path) -> Path:
    write(
        tmp_path,
        {
            "proc/self/mountinfo": V1 + UNIFIED,
            "sys/fs/cgroup/unified/cgroup.controllers": "\n",
            "sys/fs/cgroup/unified/pod/cgroup.procs": "5\n",
            "sys/fs/cgroup/unified/pod/cgroup.threads": "5\n6\n",
            "sys/fs/cgroup/unified/pod/cpu.stat": "usage_usec 9\n",
            "sys/fs/cgroup/cpuset/pod/cpuset.cpus": "0-1\n",
            "sys/fs/cgroup/cpuset/pod/cpuset.effective_cpus": "0-1\n",
            "sys/fs/cgroup/cpuset/pod/cpuset.mems": "0\n",
            "sys/fs/cgroup/cpuset/pod/cgroup.procs": "5\n8\n",
            "sys/fs/cgroup/cpuset/only-cpuset/cgroup.procs": "21\n",
            "sys/fs/cgroup/cpuset/only-cpuset/tasks": "21\n22\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/cpu.shares": "512\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/cpu.stat": "nr_periods 3\nnr_throttled 1\nthrottled_time 12345\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/cpuacct.usage": "424242\n",
            "sys/fs/cgroup/cpu,cpuacct/pod/cpuacct.usage_sys": "4242\n",
            "sys/fs/cgroup/memory/pod/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    return tmp_path


def test_v2_is_detected(v2: Path) -> None:
    """One cgroup2 mount and no v1 cpu or cpuset is v2; controllers live at its root."""
    found = cgroupfs.detect(v2)
    assert found.mode is cgroupfs.Mode.V2
    assert found.unified == found.controller_dir("cpuset") == v2 / "sys/fs/cgroup"


def test_hybrid_is_detected(hybrid: Path) -> None:
    """v1 controllers beside cgroup2 is hybrid; co-mounted controllers share their directory."""
    found = cgroupfs.detect(hybrid)
    assert found.mode is cgroupfs.Mode.HYBRID
    assert found.unified == hybrid / "sys/fs/cgroup/unified"
    assert found.controller_dir("cpu") == found.controller_dir("cpuacct") == hybrid / "sys/fs/cgroup/cpu,cpuacct"
    assert dict(found.legacy)["name=systemd"] == hybrid / "sys/fs/cgroup/systemd"


def test_pure_v1_has_no_identity(tmp_path: Path) -> None:
    """Without cgroup2 files can be read, but ids cannot: that is exit code 4 with the reason."""
    write(tmp_path, {"proc/self/mountinfo": V1})
    found = cgroupfs.detect(tmp_path)
    assert found.mode is cgroupfs.Mode.V1
    with pytest.raises(HostUnsupportedError, match="v1 only"):
        cgroupfs.cgroup_id(found, "/pod")


def test_no_cgroups_at_all(tmp_path: Path) -> None:
    """A host without any cgroup mount, or without /proc, is told so."""
    with pytest.raises(HostUnsupportedError, match="mountinfo"):
        cgroupfs.detect(tmp_path)
    write(tmp_path, {"proc/self/mountinfo": "22 1 0:1 / / rw - ext4 /dev/vda rw\ngarbage\n"})
    with pytest.raises(HostUnsupportedError, match="no cgroup file system"):
        cgroupfs.detect(tmp_path)


def test_the_whole_tree_beats_a_bind_mount_of_a_part(tmp_path: Path) -> None:
    """Of two mounts of the hierarchy the one that shows its root is taken; octal escapes in paths are decoded."""
    part = "50 22 0:26 /docker/abc /mnt/part rw - cgroup2 cgroup2 rw\n"
    whole = "29 22 0:26 / /sys/fs/c\\040group rw shared:4 - cgroup2 cgroup2 rw\n"
    write(tmp_path, {"proc/self/mountinfo": part + whole})
    assert cgroupfs.detect(tmp_path).unified == tmp_path / "sys/fs/c group"


@pytest.mark.parametrize(
    "cgroup", ["", "a/b", "/a/../b", "/..", "/a//b", "/a/", "/a/./b", "/a\nb", "//", "/" + "x" * 5000]
)
def test_paths_that_leave_the_tree_are_refused(v2: Path, cgroup: str) -> None:
    """A claim's cgroup is a clean absolute path, nothing else."""
    with pytest.raises(InputError, match="cgroup"):
        cgroupfs.read_files(cgroupfs.detect(v2), cgroup, 0)


def test_files_of_v2(v2: Path) -> None:
    """Every control file is read in its own format; "max" memory is NO_LIMIT."""
    files = cgroupfs.read_files(cgroupfs.detect(v2), "/pod/db", 7)
    assert (files.cgroup, files.at_ns) == ("/pod/db", 7)
    assert (files.cpus, files.cpus_effective) == (CpuSet.parse("2-3"), CpuSet.parse("2"))
    assert (files.mems, files.mems_effective) == (CpuSet(), CpuSet.parse("0-1"))
    assert (files.quota_us, files.period_us, files.burst_us) == (50000, 100000, 10000)
    assert (files.weight, files.shares, files.memory_max_bytes) == (59, None, cgroupfs.NO_LIMIT)


def test_files_beside_of_v2(v2: Path) -> None:
    """What decides on the worth of the others is read; what an older kernel does not have says nothing."""
    before = cgroupfs.read_files(cgroupfs.detect(v2), "/pod/db", 0)
    assert all(getattr(before, name) is None for name in SIDE)
    for name, text in (
        ("cpu.idle", "1"),
        ("cpu.uclamp.min", "0.00"),
        ("cpu.uclamp.max", "12.34"),
        ("cpuset.cpus.partition", "root invalid (Parent is not a partition root)"),
        ("cpuset.cpus.exclusive", "2-3"),
        ("cpuset.cpus.exclusive.effective", ""),
        ("memory.high", "4096"),
        ("memory.min", "0"),
        ("memory.low", "max"),
        ("memory.swap.max", "max"),
    ):
        (v2 / "sys/fs/cgroup/pod/db" / name).write_text(f"{text}\n")

    found = cgroupfs.read_files(cgroupfs.detect(v2), "/pod/db", 0)

    assert (found.idle, found.uclamp_min_percent, found.uclamp_max_percent) == (True, 0.0, 12.34)
    assert found.partition == "root invalid (Parent is not a partition root)"
    assert (found.exclusive, found.exclusive_effective) == (CpuSet.parse("2-3"), CpuSet())
    assert (found.memory_high_bytes, found.memory_min_bytes) == (4096, 0)
    assert (found.memory_low_bytes, found.swap_max_bytes) == (cgroupfs.NO_LIMIT, cgroupfs.NO_LIMIT)


def test_an_idle_cgroup_of_v1(hybrid: Path) -> None:
    """Of v1 hierarchies only cpu has such files."""
    (hybrid / "sys/fs/cgroup/cpu,cpuacct/pod/cpu.idle").write_text("1\n")
    (hybrid / "sys/fs/cgroup/memory/pod/memory.high").write_text("4096\n")
    found = cgroupfs.read_files(cgroupfs.detect(hybrid), "/pod", 0)
    assert (found.idle, found.memory_high_bytes, found.partition) == (True, None, None)


def test_no_quota_in_v2(v2: Path) -> None:
    """``max`` in cpu.max is no quota, the period stays known."""
    (v2 / "sys/fs/cgroup/pod/db/cpu.max").write_text("max 100000\n")
    files = cgroupfs.read_files(cgroupfs.detect(v2), "/pod/db", 0)
    assert (files.quota_us, files.period_us) == (NO_QUOTA, 100000)


def test_files_of_hybrid(hybrid: Path) -> None:
    """v1 names, v1 units; a page-rounded LONG_MAX is NO_LIMIT; a file that the kernel lacks is None."""
    files = cgroupfs.read_files(cgroupfs.detect(hybrid), "/pod", 0)
    assert (files.cpus, files.cpus_effective) == (CpuSet.parse("0-1"), CpuSet.parse("0-1"))
    assert (files.mems, files.mems_effective) == (CpuSet.parse("0"), None)
    assert (files.quota_us, files.period_us, files.burst_us) == (NO_QUOTA, 100000, None)
    assert (files.weight, files.shares, files.memory_max_bytes) == (None, 512, cgroupfs.NO_LIMIT)


@pytest.mark.parametrize("pages", [4096, 16_384, 65_536])
def test_huge_limits_of_hybrid(hybrid: Path, pages: int) -> None:
    """7Ei is a limit; the most that the counter holds, in whole pages of any size, is none."""
    for limit, read in ((7 << 60, 7 << 60), ((1 << 63) - pages, cgroupfs.NO_LIMIT)):
        (hybrid / "sys/fs/cgroup/memory/pod/memory.limit_in_bytes").write_text(f"{limit}\n")
        assert cgroupfs.read_files(cgroupfs.detect(hybrid), "/pod", 0).memory_max_bytes == read


def test_cpu_stat_of_v2_in_nanoseconds(v2: Path) -> None:
    """Microseconds of v2 become nanoseconds."""
    stat = cgroupfs.read_cpu_stat(cgroupfs.detect(v2), "/pod/db")
    assert (stat.usage_ns, stat.throttled_ns, stat.burst_ns) == (1_500_000, 77_000, 5_000)
    assert stat.system_ns == 500_000
    assert (stat.nr_periods, stat.nr_throttled, stat.nr_bursts) == (10, 4, 2)


def test_cpu_stat_of_hybrid(hybrid: Path) -> None:
    """v1 nanoseconds stay; usage is cpuacct's; counters that the kernel lacks are None."""
    stat = cgroupfs.read_cpu_stat(cgroupfs.detect(hybrid), "/pod")
    assert (stat.usage_ns, stat.throttled_ns, stat.burst_ns) == (424_242, 12_345, None)
    assert stat.system_ns == 4_242
    assert (stat.nr_periods, stat.nr_throttled, stat.nr_bursts) == (3, 1, None)


def test_a_cgroup_that_is_gone_reads_as_nothing(v2: Path) -> None:
    """Churn is normal: no file, no pids, no descendants, no error."""
    found = cgroupfs.detect(v2)
    files = cgroupfs.read_files(found, "/gone", 0)
    assert (files.cpus, files.quota_us, files.weight) == (None, None, None)
    assert cgroupfs.read_cpu_stat(found, "/gone").usage_ns is None
    assert cgroupfs.pids(found, "/gone") == cgroupfs.tids(found, "/gone") == cgroupfs.subtree(found, "/gone") == ()
    assert not cgroupfs.exists(found, "/gone")


def test_each_hierarchy_has_its_own_threads(hybrid: Path) -> None:
    """Of one hierarchy, whatever is in the others; no cgroup of the name is not an empty one."""
    mount = hybrid / "sys/fs/cgroup"
    assert cgroup_members.tids_below(mount / "unified", "/pod") == {5, 6}
    assert cgroup_members.tids_below(mount / "cpuset", "/only-cpuset") == {21, 22}
    assert cgroup_members.tids_below(mount / "memory", "/pod") == frozenset()
    assert cgroup_members.tids_below(mount / "memory", "/gone") is None


def test_descendants_are_covered(v2: Path) -> None:
    """Processes and threads include those of child cgroups; the subtree lists parents first."""
    found = cgroupfs.detect(v2)
    assert cgroupfs.pids(found, "/pod/db") == (7, 12, 99)
    assert cgroupfs.tids(found, "/pod/db") == (7, 12, 13, 99)
    assert cgroupfs.subtree(found, "/pod") == ("/pod", "/pod/db", "/pod/db/child")


def test_membership_on_hybrid_is_the_identity_first(hybrid: Path) -> None:
    """Where the cgroup has a v2 twin, its members are those of the twin; otherwise those of the v1 cpuset."""
    found = cgroupfs.detect(hybrid)
    assert cgroupfs.pids(found, "/pod") == (5,)
    assert cgroupfs.tids(found, "/pod") == (5, 6)
    assert cgroupfs.pids(found, "/only-cpuset") == (21,)
    assert cgroupfs.tids(found, "/only-cpuset") == (21, 22)


def test_id_is_the_inode_of_the_v2_directory(hybrid: Path) -> None:
    """BPF's cgroup id is the inode in the v2 hierarchy; a missing cgroup is one clear line."""
    found = cgroupfs.detect(hybrid)
    assert cgroupfs.cgroup_id(found, "/pod") == (hybrid / "sys/fs/cgroup/unified/pod").stat().st_ino
    with pytest.raises(InputError, match="cgroup /only-cpuset: No such file"):
        cgroupfs.cgroup_id(found, "/only-cpuset")


def test_a_fifo_in_a_copied_tree_does_not_stop_the_reader(v2: Path) -> None:
    """Trees come from elsewhere: a FIFO reads as empty instead of blocking for ever."""
    path = v2 / "sys/fs/cgroup/pod/db/cpu.weight"
    path.unlink()
    os.mkfifo(path)
    assert cgroupfs.read_files(cgroupfs.detect(v2), "/pod/db", 0).weight is None


def test_nonsense_in_a_cpu_list_is_an_input_error(v2: Path) -> None:
    """What is not a CPU list is told with the file's path."""
    (v2 / "sys/fs/cgroup/pod/db/cpuset.cpus").write_text("0-99999999999\n")
    with pytest.raises(InputError, match=r"cpuset\.cpus"):
        cgroupfs.read_files(cgroupfs.detect(v2), "/pod/db", 0)


def test_a_mount_point_with_any_byte(tmp_path: Path) -> None:
    """mountinfo escapes some bytes as octal numbers and keeps the others; none of them begins a line of its own."""
    place = tmp_path / os.fsdecode(b"cg\\ \xff\r\xc2\x85x")
    place.mkdir()
    mountinfo = tmp_path / "proc/self/mountinfo"
    mountinfo.parent.mkdir(parents=True)
    escaped = b"/cg\\134\\040\xff\r\xc2\x85x"
    mountinfo.write_bytes(b"30 1 0:26 / " + escaped + b" rw shared:4 - cgroup2 cgroup2 rw\n")

    assert detect(tmp_path).unified == place
    assert procfs.mount_points(tmp_path) == (os.fsdecode(b"/cg\\ \xff\r\xc2\x85x"),)


def test_cgroups_of_any_name_are_walked_and_opened(tmp_path: Path) -> None:
    """What a walk finds is what opens it again; what no cgroup is called is refused."""
    name = bytes(number for number in range(1, 256) if number not in b"/\n")
    (tmp_path / os.fsdecode(name) / "below").mkdir(parents=True)
    hierarchy = Hierarchy(root=Path("/"), mode=Mode.V2, unified=tmp_path)
    spelt = f"/{names.shown(name)}"

    assert cgroupfs.subtree(hierarchy, spelt) == (spelt, f"{spelt}/below")
    assert cgroupfs.exists(hierarchy, spelt)
    assert cgroupfs.cgroup_id(hierarchy, spelt) == (tmp_path / os.fsdecode(name)).stat().st_ino
    for wrong in ("/a\\x00", "/a\n", "/a//b", "/../a", "a", "/a/\ud800"):
        with pytest.raises(InputError):
            cgroupfs.relative(wrong)


def test_processes_of_v2_are_whole(v2: Path) -> None:
    """All threads of one are together, unless a cgroup is threaded: that does not list processes."""
    found = cgroupfs.detect(v2)
    assert cgroupfs.whole_processes(found, "/pod/db") == (7, 12, 99)
    assert cgroupfs.whole_processes(found, "/gone") == ()
    (v2 / "sys/fs/cgroup/pod/db/child/cgroup.procs").unlink()
    assert cgroupfs.whole_processes(found, "/pod/db") is None


def test_processes_of_v1_may_be_elsewhere_in_part(hybrid: Path) -> None:
    """It takes threads one by one."""
    found = cgroupfs.detect(hybrid)
    assert cgroupfs.whole_processes(found, "/pod") == (5,)
    assert cgroupfs.whole_processes(found, "/only-cpuset") is None
