"""What a negative control's word plants, on a small tree that stands for a host; the pod above is limited, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolkit.faults.small_tree import write
from toolkit.apply import changes
from toolkit.errors import InputError
from toolkit.faults.fault import Target, When
from toolkit.faults.injection import Host, Injection
from toolkit.faults.planting import prepared
from toolkit.faults.registry import word_of
from toolkit.host import cgroupfs
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.scenario import NegativeControl, Scenario

V2 = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1 = """34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
POD = "/kubepods/pod1"
DB = f"{POD}/db"
TARGET = Target(
    claim="pod1/db",
    cgroup=DB,
    cpus=CpuSet.parse("2-3"),
    mems=CpuSet.of([0]),
    online=CpuSet.parse("0-3"),
    memory_nodes=CpuSet.parse("0-1"),
    nodes=(CpuSet.parse("0-1"), CpuSet.parse("2-3")),
)


@pytest.fixture
def v2(tmp_path: Path) -> Host:
    """A cgroup v2 host with one container that has every limit."""
    own = {
        "cpuset.cpus": "2-3\n",
        "cpuset.mems": "0\n",
        "cpu.max": "50000 100000\n",
        "cpu.weight": "39\n",
        "hugetlb.2MB.max": "4194304\n",
        "hugetlb.2MB.rsvd.max": "max\n",
        "hugetlb.1GB.max": "0\n",
    }
    write(tmp_path, {f"sys/fs/cgroup{DB}/{name}": text for name, text in own.items()})
    write(
        tmp_path,
        {
            "proc/self/mountinfo": V2,
            "sys/devices/system/cpu/online": "0-3\n",
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory hugetlb\n",
            f"sys/fs/cgroup{POD}/cpu.max": "60000 100000\n",
        },
    )
    return Host(tmp_path, cgroupfs.detect(tmp_path), "f1")


@pytest.fixture
def v1(tmp_path: Path) -> Host:
    """A hybrid host with one container."""
    cpu = {"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n", "cpu.shares": "512\n"}
    write(tmp_path, {f"sys/fs/cgroup/cpu{DB}/{name}": text for name, text in cpu.items()})
    write(tmp_path, {"proc/self/mountinfo": V1, "sys/fs/cgroup/unified/cgroup.controllers": ""})
    write(tmp_path, {f"sys/fs/cgroup/cpu{POD}/cpu.cfs_quota_us": "60000\n"})
    write(tmp_path, {f"sys/fs/cgroup/cpu{POD}/cpu.cfs_period_us": "100000\n"})
    return Host(tmp_path, cgroupfs.detect(tmp_path), "f1")


def planted(host: Host, word: str, **settings: object) -> list[tuple[str, str, str]]:
    """Cgroup, file and new content of each change, in order; the journal may hold each of them."""
    control = NegativeControl(rule="applied", fault=word, target="pod1/db", **settings)  # type: ignore[arg-type]
    aim = word_of(control).aim
    assert aim is not None
    (made,) = prepared(host, aim(control, TARGET))
    for change in made:
        changes.check(host.root, host.hierarchy, change)
    return [(Path(change.path).parent.name, Path(change.path).name, change.after) for change in made]


@pytest.mark.parametrize(
    ("word", "settings", "expected"),
    [
        ("widen-cpuset", {}, [("db", "cpuset.cpus", "0-3")]),
        ("far-cpuset", {}, [("db", "cpuset.cpus", "0-1")]),
        ("narrow-cpuset", {}, [("db", "cpuset.cpus", "2")]),
        ("widen-mems", {}, [("db", "cpuset.mems", "0-1")]),
        ("set-quota", {"quota_us": 20_000}, [("db", "cpu.max", "20000 100000")]),
        ("set-quota", {"quota_us": 6_000, "period_us": 10_000}, [("db", "cpu.max", "6000 10000")]),
        # Wider than the pod's: the pod's goes first, else it would still hold the container back.
        ("set-quota", {"quota_us": 70_000}, [("pod1", "cpu.max", "max 100000"), ("db", "cpu.max", "70000 100000")]),
        ("set-quota", {}, [("pod1", "cpu.max", "max 100000"), ("db", "cpu.max", "max 100000")]),
        ("set-shares", {"shares": 2048}, [("db", "cpu.weight", "79")]),
        ("unlimit-hugepages", {}, [("db", "hugetlb.1GB.max", "max"), ("db", "hugetlb.2MB.max", "max")]),
    ],
)
def test_what_a_word_writes_on_v2(v2: Host, word: str, settings: dict[str, object], expected: object) -> None:
    """Files and contents, in the order in which they are written."""
    assert planted(v2, word, **settings) == expected


def test_a_word_that_changes_nothing_is_refused(v2: Host) -> None:
    """1024 shares are weight 39 by the kubelet's formula, which is what the container has."""
    with pytest.raises(InputError, match="already"):
        planted(v2, "set-shares", shares=1024)


@pytest.mark.parametrize(
    ("word", "settings", "expected"),
    [
        ("set-quota", {"quota_us": 20_000}, [("db", "cpu.cfs_quota_us", "20000")]),
        # No step allows more than both ends do: not even where these are the same bandwidth.
        (
            "set-quota",
            {"quota_us": 100_000, "period_us": 200_000},
            [("db", "cpu.cfs_period_us", "200000"), ("db", "cpu.cfs_quota_us", "100000")],
        ),
        (
            "set-quota",
            {"quota_us": 2_000, "period_us": 10_000},
            [("db", "cpu.cfs_quota_us", "2000"), ("db", "cpu.cfs_period_us", "10000")],
        ),
        (
            "set-quota",
            {"quota_us": 110_000, "period_us": 200_000},
            [("db", "cpu.cfs_period_us", "200000"), ("db", "cpu.cfs_quota_us", "110000")],
        ),
        ("set-quota", {}, [("pod1", "cpu.cfs_quota_us", "-1"), ("db", "cpu.cfs_quota_us", "-1")]),
        ("set-shares", {"shares": 1024}, [("db", "cpu.shares", "1024")]),
    ],
)
def test_what_a_word_writes_on_v1(v1: Host, word: str, settings: dict[str, object], expected: object) -> None:
    """Quota and period are two files there, and the kernel judges each write."""
    assert planted(v1, word, **settings) == expected


def test_one_cpu_cannot_be_narrowed() -> None:
    """A control that makes no sense is refused before anything is done."""
    control = NegativeControl(rule="applied", fault="narrow-cpuset", target="pod1/db")
    aim = word_of(control).aim
    assert aim is not None
    one = Target(
        claim="pod1/db",
        cpus=CpuSet.of([2]),
        mems=None,
        online=TARGET.online,
        memory_nodes=TARGET.memory_nodes,
    )
    with pytest.raises(InputError, match="two or more"):
        aim(control, one)


def test_words_that_act_elsewhere() -> None:
    """A limit is promised, a node is varied, a state file is spoilt; nothing of it can be planted."""
    tight = NegativeControl(rule="noise", fault="tight-limit", noise_budget_ns_per_s=0)
    vary = NegativeControl(rule="admission", fault="change-node", kubelet={"a": 2, "b": None})
    scenario = Scenario(name="x", title="x", kubelet={"a": 1, "b": 1, "c": 1})

    assert word_of(tight).promise(tight, ClaimSet(claims=())).noise_budget_ns_per_s == 0
    assert word_of(vary).vary(vary, scenario).kubelet == {"a": 2, "c": 1}
    assert word_of(NegativeControl(rule="checkpoint", fault="torn-state")).when is When.STATE_FILES
    with pytest.raises(InputError, match="nothing that could be planted"):
        prepared(Host(Path("/"), cgroupfs.detect(), "f1"), Injection(fault="canary-escape"))
