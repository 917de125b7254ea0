"""Verbs on a host with cgroup v2: doctor, watch, and cleanup after SIGKILL."""

from __future__ import annotations

import json

import pytest

from tests.json_lines import result_in
from tests.lab.harness.guest import Guest
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.verdicts import assert_clean, verdicts_of

COMPILE_S = 400
"""The emulated guest has not compiled the probes before."""
NOT_INSTALLED = "grpcio"
"""The image has what pinproof needs, and none of its extras."""


@guests(GuestKind())
def test_doctor_finds_everything_on_v2(guest: Guest) -> None:
    """Every capability is there, runc and crun too, but the library of the extra ``kubelet``; and every verb works."""
    report = json.loads(guest.pinproof("doctor", "--json", timeout_s=COMPILE_S).check().text)
    assert report["can_run"] is True
    assert [fact["name"] for fact in report["capabilities"] if not fact["available"]] == [NOT_INSTALLED]
    assert {verb: missing for verb, missing in report["verbs"].items() if missing} == {}
    (cgroup,) = [fact for fact in report["capabilities"] if fact["name"] == "cgroup2"]
    assert "v2" in cgroup["detail"]


@guests(GuestKind())
def test_doctor_says_what_is_missing(guest: Guest) -> None:
    """Without bcc ``run`` cannot work: exit code 4, the one capability that lacks, how to get it."""
    hide = "mount -t tmpfs none /usr/lib/python3/dist-packages/bcc && exec pinproof doctor --json"
    done = guest.run(["unshare", "--mount", "sh", "-c", hide], timeout_s=120)
    assert done.code == 4, done.error_text
    report = json.loads(done.text)
    assert report["can_run"] is False
    missing = {fact["name"]: fact["remedy"] for fact in report["capabilities"] if not fact["available"]}
    assert sorted(missing) == sorted(["bcc", NOT_INSTALLED])
    assert missing["bcc"]


CLAIMS = """
apiVersion: pinproof/v1
kind: Claims
reservedCPUs: "0"
claims:
  - name: shop
    cgroup: /lab-shop
    cpus: "{cpus}"
"""


@guests(GuestKind())
@pytest.mark.parametrize(("cpus", "outcome"), [("2-3", "passed"), ("4-5", "failed")])
def test_watch_judges_what_another_program_made(guest: Guest, cpus: str, outcome: str) -> None:
    """A cgroup that pinproof did not make is judged by a claims file, and is the same afterwards."""
    guest.sh(
        "mkdir -p /sys/fs/cgroup/lab-shop; echo 2-3 > /sys/fs/cgroup/lab-shop/cpuset.cpus;"
        "busybox setsid sh -c 'echo $$ > /sys/fs/cgroup/lab-shop/cgroup.procs; while :; do :; done' >/dev/null 2>&1 &"
    )
    guest.put({"claims.yaml": CLAIMS.format(cpus=cpus).encode()}, "/tmp")
    every_file = (
        "cd /sys/fs/cgroup; find . -type d | sort; cat cgroup.subtree_control; cd lab-shop;"
        "grep . cpuset.cpus cpuset.mems cpu.max cpu.weight cgroup.procs"
    )
    try:
        before = guest.sh(every_file)
        words = ("watch", "--claims", "/tmp/claims.yaml", "--duration", "2", "--output", "/tmp/runs", "--json")
        done = guest.pinproof(*words, timeout_s=200)
        assert done.code in (0, 1, 3), done.error_text
        found = result_in(done.text)
        verdict = verdicts_of(found, "cpuset-containment")["shop"]
        if outcome == "failed":
            assert (done.code, verdict["outcome"]) == (1, "failed"), done.error_text
            assert {row["cpu"] for row in verdict["offenders"]} <= {2, 3}
        else:
            assert done.code in (0, 3), done.error_text
            assert_clean(verdict)
        assert guest.sh(every_file) == before
    finally:
        guest.sh(
            "echo 1 > /sys/fs/cgroup/lab-shop/cgroup.kill; until rmdir /sys/fs/cgroup/lab-shop; do sleep 0.1; done"
        )


KILLED = """
import os, signal, sys
from tests.integration.apply_support import container, request, traces
from toolkit.apply.sandbox import sandbox
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import WorkloadKind

ready, told = os.pipe()
child = os.fork()
if child == 0:
    wanted = container("db", WorkloadKind.SPIN, WorkloadKind.AFFINITY_ESCAPER, cpus=CpuSet.parse("3"), quota_us=50_000)
    with sandbox(request(wanted), run_id="lab-killed", runtime=ARGS["runtime"]):
        os.write(told, b"1")
        signal.pause()
os.read(ready, 1)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print(*traces("lab-killed"), sep="\\n")
"""
LEFT = """
from tests.integration.apply_support import traces, wait_until
wait_until(lambda: not traces("lab-killed"), 30)
print(*traces("lab-killed"), sep="\\n")
"""


@guests(GuestKind())
@pytest.mark.parametrize("runtime", ["cgroupfs", "runc", "crun"])
def test_cleanup_after_sigkill(equipped: Guest, runtime: str) -> None:
    """What a killed run leaves behind is undone by ``pinproof cleanup`` to the last cgroup, process and mount."""
    control = equipped.read("/sys/fs/cgroup/cgroup.subtree_control")
    left = equipped.python(KILLED, {"runtime": runtime}, timeout_s=120).check().text.split("\n")
    assert [line for line in left if line.startswith("/sys/fs/cgroup/")], left

    done = equipped.pinproof("cleanup", "--json").check()

    assert json.loads(done.text)["removed"] == ["lab-killed"]
    assert json.loads(done.text)["problems"] == []
    assert equipped.python(LEFT, timeout_s=60).check().text.strip() == ""
    assert equipped.read("/sys/fs/cgroup/cgroup.subtree_control") == control
