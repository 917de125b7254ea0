"""The guest as a tool: what the harness promises to every other test here."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from probes.unit import KEPT
from tests.lab.harness import compiled
from tests.lab.harness.debian import KERNELS
from tests.lab.harness.guest import Guest
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind

EVERY_KERNEL = guests(*(GuestKind(kernel=kernel) for kernel in KERNELS))


@EVERY_KERNEL
def test_kernel_is_the_one_asked_for(guest: Guest) -> None:
    """The running kernel has the version asked for, and is real-time only where that was asked for."""
    version, _, flavour = guest.kernel.partition("-")
    assert guest.sh("uname -r").startswith(f"{version}.")
    assert guest.sh("cat /sys/kernel/realtime 2>/dev/null || echo 0") == ("1" if flavour == "rt" else "0")


@EVERY_KERNEL
def test_cgroup_v2_with_all_controllers(guest: Guest) -> None:
    """Only the v2 hierarchy is mounted, its controllers are delegated from the root, commands run in a slice."""
    assert guest.sh("grep -c cgroup /proc/mounts") == "1"
    controllers = guest.read("/sys/fs/cgroup/cgroup.subtree_control").split()
    assert {"cpuset", "cpu", "memory", "pids", "hugetlb"} <= set(controllers)
    assert guest.read("/proc/self/cgroup").strip() == "0::/system.slice"


@EVERY_KERNEL
def test_a_restored_guest_knows_the_time(guest: Guest) -> None:
    """The wall clock is the host's, not the snapshot's, within the seconds that emulation may lose."""
    assert abs(float(guest.sh("date +%s")) - time.time()) < 30


@EVERY_KERNEL
def test_no_kernel_headers_are_there(guest: Guest) -> None:
    """What works in a guest works without a headers package."""
    guest.sh("! ls -d /lib/modules/*/build /usr/src/linux-headers-*")


@guests(GuestKind())
def test_requests_overlap(guest: Guest) -> None:
    """A request is answered while an earlier one still runs."""
    slow = guest.start(["sh", "-c", "until [ -e /tmp/go ]; do sleep 0.05; done; echo done"])
    guest.run(["touch", "/tmp/go"]).check()
    assert slow.result().check().text == "done\n"


@guests(GuestKind())
def test_what_a_guest_compiled_is_there_for_the_next(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest of it, as much as it has room for; no other file; and as pinproof wants it: no other user writes."""
    monkeypatch.setenv("PINPROOF_LAB_CACHE", str(tmp_path))
    place, count = compiled.PLACE, KEPT + 2
    guest.sh(f"rm -rf {place}; mkdir -p {place}; echo torn >{place}/.torn")
    one = f"echo $n >{place}/$n.json; touch -d @$((1700000000 + 1$n)) {place}/$n.json"
    guest.sh(f"for n in $(seq -w {count}); do {one}; done")
    compiled.take(guest)
    guest.sh(f"rm -r {place}")
    compiled.give(guest)
    assert guest.sh(f"cd {place}; ls -A").split() == [f"{n:02}.json" for n in range(4, count + 1)]
    assert guest.read(f"{place}/{count}.json") == f"{count}\n"
    assert guest.sh(f"find {place} -perm /022 -o ! -user root") == ""
    guest.sh(f"rm -r {place}")


@guests(GuestKind())
def test_a_timeout_keeps_the_output(guest: Guest) -> None:
    """A command whose time runs out is killed with its children, comes back with 124 and with what it had said."""
    done = guest.run(["sh", "-c", "echo begun; sleep 987 & wait"], timeout_s=1)
    assert (done.code, done.text) == (124, "begun\n")
    assert guest.run(["pgrep", "-f", "sleep 987"]).code == 1


@guests(GuestKind())
def test_commands_take_input_and_report_failure(guest: Guest) -> None:
    """Standard input, binary output, exit code and standard error all arrive; a missing program is 127."""
    blob = bytes(range(256)) * 4096
    assert guest.run(["cat"], stdin=blob).out == blob
    failed = guest.run(["sh", "-c", "echo wrong >&2; exit 3"])
    assert (failed.code, failed.error_text) == (3, "wrong\n")
    assert guest.run(["no-such-program"]).code == 127


@guests(GuestKind())
def test_python_runs_with_the_project(guest: Guest) -> None:
    """Source runs in the guest with arguments, imports the current tree, and its exit code and traceback come back."""
    source = "from toolkit.model.cpuset import CpuSet\nprint(CpuSet.parse(ARGS['list']).mask)"
    assert guest.python(source, {"list": "0-2"}).check().text == "7\n"
    broken = guest.python("raise SystemExit(5)")
    assert broken.code == 5
    assert "ZeroDivisionError" in guest.python("1 / 0").error_text


@guests(GuestKind())
def test_files_go_in_and_come_out(guest: Guest, tmp_path: Path) -> None:
    """A folder put into the guest comes back the same."""
    guest.put({"a/b": b"\x00\xff", "c": b"text"}, "/tmp/tree")
    back = guest.get("/tmp/tree", tmp_path)
    assert (back / "a/b").read_bytes() == b"\x00\xff"
    assert (back / "c").read_bytes() == b"text"


@guests(GuestKind())
def test_bcc_compiles_in_the_guest(guest: Guest) -> None:
    """The Debian bcc in the guest compiles without any kernel's headers, attaches, and counts."""
    source = """
from probes import compiler
b = compiler.build('BPF_ARRAY(n, u64, 1); RAW_TRACEPOINT_PROBE(sched_switch) { n.increment(0); return 0; }')
import time
deadline = time.monotonic() + 30
while not b['n'][0].value and time.monotonic() < deadline:
    time.sleep(0.01)
print(b['n'][0].value)
"""
    assert int(guest.python(source, timeout_s=120).check().text) > 0
