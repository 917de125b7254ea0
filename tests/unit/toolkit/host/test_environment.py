"""The environment of a result, read from small trees: each fact from the file that holds it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.unit.toolkit.host.btf_image import FLAG, INT, STRUCT, Image
from tests.unit.toolkit.host.sysroots import CPU, cpu, write
from toolkit.host import virtualization
from toolkit.host.btf import KERNEL_BTF
from toolkit.host.environment import cgroup_mode, read_environment, throttle_model
from toolkit.host.kernel_config import read_kernel_config
from toolkit.host.sysfs import SysTree
from toolkit.host.virtualization import read_virtualization
from toolkit.model.evidence import Environment
from toolkit.model.serde import from_json, to_json


def kernel_btf(root: Path, *, task_based: bool, bandwidth: bool = True) -> Path:
    """Write the BTF of a kernel of one throttle model."""
    image = Image()
    image.add(INT, "int", 4, extra=b"\0" * 4)
    image.add(STRUCT, "task_struct", 64, (("throttle_node" if task_based else "pid", 1, 0),))
    image.add(STRUCT, "cfs_rq", 64, (("throttled" if bandwidth else "load", 1, 1 << 24),), flag=FLAG)
    path = root / KERNEL_BTF
    path.parent.mkdir(parents=True)
    path.write_bytes(image.data())
    return root


@pytest.mark.parametrize(
    ("task_based", "bandwidth", "model"), [(True, True, "task"), (False, True, "runqueue"), (True, False, "unknown")]
)
def test_throttle_model_from_btf(tmp_path: Path, task_based: bool, bandwidth: bool, model: str) -> None:
    """The member that per-task throttling added decides; a kernel without CFS bandwidth has no model."""
    assert throttle_model(kernel_btf(tmp_path, task_based=task_based, bandwidth=bandwidth)) == model


@pytest.mark.parametrize(
    ("symbols", "model"),
    [
        ("0 t tg_unthrottle_up\n0 t throttle_cfs_rq_work", "task"),
        ("0 t tg_unthrottle_up\n0 t throttle_cfs_rq", "runqueue"),
        ("0 t schedule\n", "unknown"),
    ],
)
def test_throttle_model_from_symbols(tmp_path: Path, symbols: str, model: str) -> None:
    """Without BTF the kernel's symbols tell; damaged BTF counts as none."""
    write(tmp_path, {"proc/kallsyms": symbols})
    assert throttle_model(tmp_path) == model
    write(tmp_path, {KERNEL_BTF: "damaged"})
    assert throttle_model(tmp_path) == model


def test_everything_absent(tmp_path: Path) -> None:
    """A tree with one CPU and nothing else gives an environment that says unknown, and survives JSON."""
    write(tmp_path, cpu(0))
    found = read_environment(tmp_path)
    assert (found.kernel, found.cgroup, found.hz, found.bandwidth_slice_us) == ("unknown", "none", None, None)
    assert (found.throttle_model, found.sched_ext, found.virtualization) == ("unknown", "disabled", "none")
    assert from_json(Environment, to_json(found), "environment") == found


def test_every_fact(tmp_path: Path) -> None:
    """Each fact comes from its file."""
    write(kernel_btf(tmp_path, task_based=True), {**cpu(0), **cpu(1), f"{CPU}/isolated": "1", f"{CPU}/nohz_full": "1"})
    write(tmp_path, {"proc/sys/kernel/osrelease": "6.18.0-test", "proc/cmdline": "quiet isolcpus=1"})
    write(tmp_path, {"proc/sys/kernel/sched_cfs_bandwidth_slice_us": 5000, "boot/config-6.18.0-test": "CONFIG_HZ=1000"})
    write(tmp_path, {"sys/kernel/sched_ext/state": "enabled", "sys/kernel/sched_ext/root/ops": "simple"})
    write(tmp_path, {f"{CPU}/cpu1/cpuidle/state{n}/latency": us for n, us in enumerate((0, 2, 133, 890))})
    write(tmp_path, {f"{CPU}/cpu1/cpuidle/state3/disable": 1})
    mount = "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw"
    write(tmp_path, {"proc/self/mountinfo": mount, "sys/hypervisor/type": "xen"})
    found = read_environment(tmp_path)
    assert (found.kernel, found.cmdline, found.cgroup) == ("6.18.0-test", "quiet isolcpus=1", "v2")
    assert (found.hz, found.bandwidth_slice_us, found.throttle_model) == (1000, 5000, "task")
    assert found.idle_exit_us == 133, "the deepest state that is not disabled"
    assert (str(found.cpus_online), str(found.cpus_isolated), str(found.cpus_nohz_full)) == ("0-1", "1", "1")
    assert (found.sched_ext, found.virtualization) == ("enabled (simple)", "xen")
    assert found.topology["cpus_online"] == "0-1"


def test_cgroup_modes(tmp_path: Path) -> None:
    """v1 controllers make v1, and hybrid when there is a cgroup2 mount anywhere."""
    legacy = "31 1 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"
    write(tmp_path, {"proc/self/mountinfo": legacy})
    assert cgroup_mode(tmp_path) == "v1"
    write(tmp_path, {"proc/self/mountinfo": f"{legacy}\n32 1 0:28 / /run/unified rw - cgroup2 none rw"})
    assert cgroup_mode(tmp_path) == "hybrid"


def test_config_from_proc_comes_first(tmp_path: Path) -> None:
    """The running kernel's own configuration is believed before a file in /boot; what is not set is absent."""
    packed = tmp_path / "proc/config.gz"
    write(tmp_path, {"proc/sys/kernel/osrelease": "6.1", "boot/config-6.1": "CONFIG_HZ=100"})
    assert read_kernel_config(SysTree(tmp_path)) == {"CONFIG_HZ": "100"}
    packed.write_bytes(gzip.compress(b'CONFIG_HZ=250\n# CONFIG_PREEMPT is not set\nCONFIG_X="a b"\n'))
    assert read_kernel_config(SysTree(tmp_path)) == {"CONFIG_HZ": "250", "CONFIG_X": "a b"}
    packed.write_bytes(b"not gzip")
    assert read_kernel_config(SysTree(tmp_path)) == {"CONFIG_HZ": "100"}


def test_a_configuration_that_unpacks_without_end_is_cut(tmp_path: Path) -> None:
    """A small file that unpacks to a gigabyte neither fills the memory nor hangs."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_HZ=250\n" + bytes(64 << 20)))
    assert read_kernel_config(SysTree(tmp_path)) == {"CONFIG_HZ": "250"}


def test_a_release_with_a_path_in_it_is_not_followed(tmp_path: Path) -> None:
    """The release of a hostile tree does not choose which file is read."""
    write(tmp_path, {"proc/sys/kernel/osrelease": "../etc", "boot/etc": "x", "etc": "CONFIG_HZ=1"})
    assert read_kernel_config(SysTree(tmp_path)) is None


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"proc/cpuinfo": "flags : fpu vme", "sys/class/dmi/id/sys_vendor": "Amazon EC2"}, "none"),
        ({"proc/cpuinfo": "flags : fpu hypervisor", "sys/class/dmi/id/sys_vendor": "Amazon EC2"}, "kvm"),
        ({"proc/cpuinfo": "flags : fpu hypervisor", "sys/class/dmi/id/product_name": "VMware7,1"}, "vmware"),
        ({"proc/cpuinfo": "flags : fpu hypervisor"}, "hypervisor"),
        ({"proc/cpuinfo": "processor : 0", "sys/class/dmi/id/sys_vendor": "QEMU"}, "qemu"),
        ({"proc/sysinfo": "VM00 Control Program: z/VM    7.3.0"}, "zvm"),
        # An arm64 machine of Amazon's without a hypervisor, and one with.
        (
            {
                "proc/cpuinfo": "Features : fp asimd",
                "sys/class/dmi/id/sys_vendor": "Amazon EC2",
                "sys/class/dmi/id/product_name": "c7g.metal",
            },
            "none",
        ),
        (
            {
                "proc/cpuinfo": "Features : fp asimd",
                "sys/class/dmi/id/sys_vendor": "Amazon EC2",
                "sys/class/dmi/id/product_name": "c7g.large",
            },
            "kvm",
        ),
        ({"proc/device-tree/hypervisor/compatible": "linux,kvm"}, "kvm"),
        ({}, "none"),
    ],
)
def test_virtualization(tmp_path: Path, files: dict[str, str | int], kind: str) -> None:
    """The CPU's flag comes before the firmware's names; without a flag the firmware, s390's and Arm's files tell."""
    assert read_virtualization(SysTree(write(tmp_path, files))) == kind


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("echo none; exit 1", "none"),
        ("echo amazon", "amazon"),
        # What makes no sense is as good as no command.
        ("echo; exit 1", "from files"),
        ("echo 'Failed: x'; exit 1", "from files"),
        ("echo kvm; exit 127", "from files"),
        (None, "from files"),
    ],
)
def test_the_running_machine_is_systemds_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, kind: str
) -> None:
    """The command's word counts, also against our files; without the command, or with its failure, the files do."""
    if script is not None:
        program = tmp_path / virtualization.COMMAND[0]
        program.write_text(f'#!/bin/sh\n[ "$1" = --vm ] || exit 9\n{script}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(virtualization, "_from_files", lambda _tree: "from files")
    virtualization._asked.cache_clear()
    try:
        assert read_virtualization(SysTree(Path("/"))) == kind
        assert read_virtualization(SysTree(tmp_path)) == "from files", "a saved tree is not this machine"
    finally:
        virtualization._asked.cache_clear()
