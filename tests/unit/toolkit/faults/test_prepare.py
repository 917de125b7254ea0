"""Which changes make a fault, and how they are taken back, on a small tree that stands for a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolkit.faults.small_tree import write
from toolkit.apply import changes
from toolkit.apply.change import ChangeKind, HostChange
from toolkit.apply.journal import Journal, Record
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.faults.consent import own_sandbox, require_allowed
from toolkit.faults.injection import Host, Injection
from toolkit.faults.interrupts import interrupt_counts
from toolkit.faults.planting import prepared
from toolkit.faults.registry import fault_named
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet

V2 = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
HYBRID = """34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
INTERRUPTS = """           CPU0       CPU1
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 36:          0    1008817 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
NMI:          0          0   Non-maskable interrupts
"""
TARGET = "/kubepods/pod1/db"


@pytest.fixture
def v2(tmp_path: Path) -> Host:
    """A cgroup v2 host of 4 CPUs with one container."""
    write(
        tmp_path,
        {
            "proc/self/mountinfo": V2,
            "proc/interrupts": INTERRUPTS,
            "proc/irq/24/smp_affinity_list": "0-3\n",
            "proc/irq/36/smp_affinity_list": "0-3\n",
            "proc/irq/36/effective_affinity_list": "1\n",
            "sys/devices/system/cpu/online": "0-3\n",
            "sys/devices/system/cpu/cpu3/online": "1\n",
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory\n",
            "sys/fs/cgroup/kubepods/cpuset.cpus.effective": "0-3\n",
            "sys/fs/cgroup/kubepods/pod1/db/cpuset.cpus": "2-3\n",
            "sys/fs/cgroup/kubepods/pod1/db/cpuset.mems": "0\n",
            "sys/fs/cgroup/kubepods/pod1/db/cpu.max": "50000 100000\n",
            "sys/fs/cgroup/kubepods/pod1/db/cpu.weight": "39\n",
            "sys/fs/cgroup/kubepods/pod1/db/cpu.idle": "0\n",
            "sys/fs/cgroup/kubepods/pod1/db/memory.max": "67108864\n",
            "sys/fs/cgroup/kubepods/pod1/db/cgroup.procs": "",
        },
    )
    return Host(tmp_path, cgroupfs.detect(tmp_path), "f1")


def only(host: Host, **injection: object) -> list[tuple[str, str, str]]:
    """File, before and after of the changes of a fault without alternatives."""
    (made,) = prepared(host, Injection(targets=(TARGET,), **injection))  # type: ignore[arg-type]
    return [(Path(change.path).name, change.before.strip(), change.after) for change in made]


@pytest.mark.parametrize(
    ("fault", "more", "expected"),
    [
        ("cpuset-write", {}, [("cpuset.cpus", "2-3", "0-3")]),
        ("cpuset-write", {"cpus": CpuSet.of([1])}, [("cpuset.cpus", "2-3", "1")]),
        ("cpuset-emptied", {}, [("cpuset.cpus", "2-3", ""), ("cpuset.mems", "0", "")]),
        ("pool-emptied", {}, [("cpuset.cpus", "2-3", "")]),
        ("quota-reset", {}, [("cpu.max", "50000 100000", "max 100000")]),
        ("quota-imposed", {}, [("cpu.max", "50000 100000", "1000 100000")]),
        ("period-changed", {}, [("cpu.max", "50000 100000", "50000 10000")]),
        ("weight-reset", {}, [("cpu.weight", "39", "100")]),
        ("cpu-idle", {}, [("cpu.weight", "39", "100"), ("cpu.idle", "0", "1")]),
        ("memory-raised", {}, [("memory.max", "67108864", "134217728")]),
    ],
)
def test_what_a_fault_writes_on_v2(v2: Host, fault: str, more: dict[str, object], expected: object) -> None:
    """File, old and new content of every control file that the fault is about."""
    assert only(v2, fault=fault, **more) == expected


def test_v1_cannot_be_emptied_so_the_parents_set_is_written(tmp_path: Path) -> None:
    """cgroup v1 refuses an empty set (ENOSPC): what it would mean is written; the quota is a file of its own."""
    write(
        tmp_path,
        {
            "proc/self/mountinfo": HYBRID,
            "sys/devices/system/cpu/online": "0-3\n",
            "sys/fs/cgroup/unified/cgroup.controllers": "",
            "sys/fs/cgroup/cpuset/kubepods/pod1/cpuset.effective_cpus": "0-3\n",
            "sys/fs/cgroup/cpuset/kubepods/pod1/cpuset.effective_mems": "0\n",
            "sys/fs/cgroup/cpuset/kubepods/pod1/db/cpuset.cpus": "2\n",
            "sys/fs/cgroup/cpuset/kubepods/pod1/db/cpuset.mems": "0\n",
            "sys/fs/cgroup/cpu/kubepods/pod1/db/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/kubepods/pod1/db/cpu.shares": "512\n",
        },
    )
    host = Host(tmp_path, cgroupfs.detect(tmp_path), "f1")
    assert only(host, fault="cpuset-emptied") == [("cpuset.cpus", "2", "0-3")]
    assert only(host, fault="quota-reset") == [("cpu.cfs_quota_us", "50000", "-1")]
    assert only(host, fault="weight-reset") == [("cpu.shares", "512", "1024")]


def test_interrupts_are_tried_from_the_busiest(v2: Host) -> None:
    """Only trying tells which interrupt can be moved; the CPU in use is written down, so that it is put back too."""
    alternatives = prepared(v2, Injection(fault="irq-moved", cpus=CpuSet.of([3])))
    assert [(Path(one.path).parent.name, one.after, one.via) for (one,) in alternatives] == [
        ("36", "3", "1"),
        ("24", "3", ""),
    ]
    assert interrupt_counts(v2.root) == {24: 1, 36: 1008817}


def test_offline_writes_down_what_the_kernel_will_change(v2: Host) -> None:
    """Interrupts that may run on the CPU are put back with it; CPU 0 has no switch."""
    (made,) = prepared(v2, Injection(fault="cpu-offline", cpus=CpuSet.of([3])))
    assert [change.kind for change in made] == [ChangeKind.CONSEQUENCE, ChangeKind.CONSEQUENCE, ChangeKind.CONTROL]
    with pytest.raises(HostUnsupportedError, match="CPU 0 cannot be taken offline"):
        prepared(v2, Injection(fault="cpu-offline", cpus=CpuSet.of([0])))


@pytest.mark.parametrize(
    ("injection", "message"),
    [
        (Injection(fault="cpuset-write", targets=(TARGET,), cpus=CpuSet.parse("2-3")), "already"),
        (Injection(fault="quota-imposed", targets=(TARGET,), quota_us=999), "at least 1000 us"),
        (Injection(fault="weight-reset", targets=("/kubepods/pod1",)), "does not exist"),
        (Injection(fault="task-moved", targets=(TARGET,)), "no process"),
        (Injection(fault="irq-moved"), "one CPU"),
        (Injection(fault="checkpoint-torn", state_file="/etc/passwd"), "a file named cpu_manager_state"),
    ],
)
def test_what_makes_no_sense_is_refused(v2: Host, injection: Injection, message: str) -> None:
    """One line says why; nothing has been written."""
    with pytest.raises(InputError, match=message):
        prepared(v2, injection)


def test_consent_is_needed_outside_of_our_sandboxes(v2: Host) -> None:
    """A name like ours is not enough: a living run's journal must stand behind it."""
    fault = fault_named("quota-reset")
    (v2.root / "sys/fs/cgroup/pinproof-r1/pod/db").mkdir(parents=True)
    assert not own_sandbox(v2.root, "/pinproof-r1/pod/db")
    for targets in ((TARGET,), ("/pinproof-r1/pod/db",)):
        with pytest.raises(InputError, match="--i-know-this-breaks-isolation"):
            require_allowed(v2.root, v2.hierarchy, fault, targets, consent=False)
        require_allowed(v2.root, v2.hierarchy, fault, targets, consent=True)
    for wrong in ("/nowhere", "/", "/../etc", None):
        with pytest.raises(InputError):
            require_allowed(v2.root, v2.hierarchy, fault, (wrong,) if wrong else (), consent=True)


def undo(host: Host, *made: HostChange) -> tuple[str, ...]:
    """Undo changes of a run of this boot."""
    write(host.root, {"proc/sys/kernel/random/boot_id": "boot\n"})
    records = (Record(what="run", run_id="f1", boot_id="boot"), Record(what="changes", changes=made))
    return changes.undo(host.root, host.hierarchy, Journal(host.root, records))


def test_undo_puts_back_only_what_we_wrote(v2: Host) -> None:
    """Ours is put back, theirs is named and left, what was never written or is gone is nothing to do."""
    path = v2.root / "sys/fs/cgroup/kubepods/pod1/db/cpu.weight"
    change = HostChange(kind=ChangeKind.CONTROL, path=str(path), before="39\n", after="100")
    assert undo(v2, change) == ()
    path.write_text("100\n")
    assert undo(v2, change) == ()
    assert path.read_text().split()[0] == "39"
    path.write_text("7\n")
    assert "another program wrote '7' meanwhile" in undo(v2, change)[0]
    path.unlink()
    assert undo(v2, change) == ()


@pytest.mark.parametrize(
    "change",
    [
        HostChange(kind=ChangeKind.CONTROL, path="/etc/passwd", before="x"),
        HostChange(kind=ChangeKind.CONTROL, path="{root}/sys/fs/cgroup/kubepods/../../../etc/cpu.max", before="x"),
        HostChange(kind=ChangeKind.CONTROL, path="{root}/sys/fs/cgroup/kubepods/cgroup.procs", before="1"),
        HostChange(kind=ChangeKind.CONTROL, path="{root}/proc/irq/1/../../sys/kernel/panic", before="1"),
        HostChange(kind=ChangeKind.STATE_FILE, path="/etc/shadow", before="x"),
        HostChange(kind=ChangeKind.CGROUP, path="/kubepods/pod1/db", hierarchies=("unified",)),
        HostChange(kind=ChangeKind.CGROUP, path="/kubepods/pinproof-guest-x", hierarchies=("nonsense",)),
        HostChange(kind=ChangeKind.MEMBER, before="/a", after="/kubepods/pod1", pid=1),
        HostChange(kind=ChangeKind.MEMBER, before="/a/../..", after="/pinproof-guest-x", pid=1),
    ],
)
def test_a_journal_that_lies_is_refused(v2: Host, change: HostChange) -> None:
    """Whatever a journal says, only files and cgroups of the kinds that faults change are ever touched."""
    lying = HostChange(
        kind=change.kind,
        path=change.path.replace("{root}", str(v2.root)),
        before=change.before,
        after=change.after,
        hierarchies=change.hierarchies,
        pid=change.pid,
    )
    with pytest.raises(InputError):
        undo(v2, lying)


def test_after_a_reboot_only_files_on_disk_are_put_back(v2: Host, tmp_path: Path) -> None:
    """Numbers of interrupts and processes mean others after a boot; a state file is still the same."""
    state = tmp_path / "var/cpu_manager_state"
    write(tmp_path, {"proc/sys/kernel/random/boot_id": "new\n", "var/cpu_manager_state": "torn"})
    weight = v2.root / "sys/fs/cgroup/kubepods/pod1/db/cpu.weight"
    weight.write_text("100\n")
    made = (
        HostChange(kind=ChangeKind.STATE_FILE, path=str(state), before="whole", after="torn"),
        HostChange(kind=ChangeKind.CONTROL, path=str(weight), before="39\n", after="100"),
    )
    records = (Record(what="run", run_id="f1", boot_id="old"), Record(what="changes", changes=made))
    assert changes.undo(v2.root, v2.hierarchy, Journal(v2.root, records)) == ()
    assert (state.read_text(), weight.read_text()) == ("whole", "100\n")
    assert sorted(path.name for path in state.parent.iterdir()) == ["cpu_manager_state"]


def test_a_task_that_works_is_moved_whatever_its_number(v2: Host) -> None:
    """Process ids begin again at the top: a main process that waits may have a higher one than its worker."""
    stat = "0 (x) S " + " ".join(["0"] * 18) + " 77 0 0\n"
    write(
        v2.root,
        {
            "sys/fs/cgroup/kubepods/pod1/db/cgroup.procs": "301\n32700\n",
            "proc/32700/task/32700/children": "301 \n",
            "proc/301/task/301/children": "\n",
            "proc/301/stat": stat,
            "proc/32700/stat": stat,
        },
    )

    ((_, moved),) = prepared(v2, Injection(fault="task-moved", targets=(TARGET,)))

    assert moved.pid == 301
