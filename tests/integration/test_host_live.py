"""The host readers against the running kernel, beside other programs' answers to the same questions."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.probe_lab import cgroup
from toolkit.host import bpf_syscalls, cgroupfs
from toolkit.host.btf import KERNEL_BTF, Btf
from toolkit.host.capabilities import read_capabilities
from toolkit.host.environment import read_environment, throttle_model
from toolkit.model.cgroup_manager import CgroupManager

pytestmark = [pytest.mark.integration, pytest.mark.beside]


def test_btf_members_are_where_bpftool_sees_them() -> None:
    """Offsets of ordinary members, bit fields and members of anonymous structs equal bpftool's."""
    if not Path("/", KERNEL_BTF).exists():
        pytest.skip(f"this kernel has no /{KERNEL_BTF}")
    if shutil.which("bpftool") is None:
        pytest.skip("bpftool is not installed")
    dump = subprocess.run(
        ["bpftool", "btf", "dump", "file", f"/{KERNEL_BTF}"], capture_output=True, text=True, check=True
    ).stdout
    btf = Btf.of_kernel()
    assert btf is not None
    assert btf is Btf.of_kernel(Path("/")), "read twice"
    for name in ("task_struct", "css_set", "sched_entity"):
        body = re.search(rf"^\[\d+\] STRUCT '{name}' .*\n((?:\t.*\n)+)", dump, re.MULTILINE)
        assert body is not None
        members = re.findall(r"'([^'(]+)' type_id=\d+ bits_offset=(\d+)(?: bitfield_size=(\d+))?", body[1])
        assert len(members) > 5
        for member, offset, bits in members[:: max(1, len(members) // 12)]:
            found = btf.member(name, member)
            assert found is not None
            assert (found.bit_offset, found.bits) == (int(offset), int(bits or 0)), f"{name}.{member}"


def test_the_kernel_answers_and_nothing_stays_open() -> None:
    """As root the calls work or tell why; no descriptor is left, and a tracepoint that is not there is told apart."""
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    answers = (
        bpf_syscalls.try_array_map(),
        bpf_syscalls.try_ring_buffer(),
        bpf_syscalls.try_raw_tracepoint(),
        bpf_syscalls.try_cpu_clock_event(min(os.sched_getaffinity(0))),
    )
    missing = bpf_syscalls.try_raw_tracepoint("no_such_tracepoint")
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before
    if answers[2] == 0:
        assert missing == errno.ENOENT
    found = read_capabilities().capabilities
    capabilities = {capability.name: capability.available for capability in found}
    authors = next(capability for capability in found if capability.name == "function-return")
    assert authors.available or (authors.detail and "which tasks write control files" in authors.lost)
    names = ("bpf", "ring-buffer", "raw-tracepoint", "perf-event")
    assert [capabilities[name] for name in names] == [answer == 0 for answer in answers]


def test_environment_of_this_machine() -> None:
    """Kernel release, online CPUs and slice are what the system says; the two ways to the throttle model agree."""
    environment = read_environment()
    assert environment.kernel == platform.release()
    assert len(environment.cpus_online) == os.sysconf("SC_NPROCESSORS_ONLN")
    assert environment.cgroup in ("v2", "hybrid", "v1")
    if re.search(r"\btg_unthrottle_up\b", Path("/proc/kallsyms").read_text()):
        by_task = re.search(r"\bthrottle_cfs_rq_work\b", Path("/proc/kallsyms").read_text()) is not None
        assert throttle_model() == ("task" if by_task else "runqueue")


def test_a_scope_is_systemds_by_its_mark_alone() -> None:
    """On the real cgroup file system: a directory named as a scope has no manager until it has systemd's attribute."""
    hierarchy = cgroupfs.detect()
    with cgroup(f"pinproof-test-{os.getpid()}.scope") as name:
        before = cgroupfs.read_files(hierarchy, name, 0).manager
        os.setxattr(cgroupfs.identity_dir(hierarchy, name), "trusted.invocation_id", b"0123456789abcdef")
        after = cgroupfs.read_files(hierarchy, name, 0).manager

    assert (before, after) == (CgroupManager.CGROUPFS, CgroupManager.SYSTEMD)


def test_virtualization_is_what_systemd_says() -> None:
    """Where systemd-detect-virt exists, its word is ours."""
    if shutil.which("systemd-detect-virt") is None:
        pytest.skip("systemd-detect-virt is not installed")
    said = subprocess.run(["systemd-detect-virt", "--vm"], capture_output=True, text=True, check=False).stdout.strip()

    assert read_environment().virtualization == said
