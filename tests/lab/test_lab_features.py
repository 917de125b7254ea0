"""Kernel features that the build machine lacks: BPF trampolines, cgroup v2 with crun, PREEMPT_RT, CPU ids above 63.

The project's own integration tests run inside the guests: what holds on the machine that they were written on has to
hold on the kernels that users have.
"""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab.harness.debian import KERNELS
from tests.lab.harness.guest import PROJECT, Guest
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.topology import SPARSE

HERE = Path(__file__).resolve().parents[2]
PLANTER = "tests/data/probes/planter"
EVERY_KERNEL = guests(*(GuestKind(kernel=kernel) for kernel in KERNELS))
RUN_TESTS = """
import pytest
raise SystemExit(pytest.main([*ARGS["words"], "-q", "-p", "no:cacheprovider", "--junitxml=/tmp/tests.xml"]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a test of the project came to inside a guest."""

    name: str
    outcome: str
    said: str


@pytest.fixture(scope="module")
def equipped(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """The guest with the project's tests and their foreign program, compiled here: guests have no compiler."""
    program = tmp_path_factory.mktemp("planter") / "planter"
    source = HERE / f"{PLANTER}.c"
    subprocess.run(["cc", "-O2", "-static", "-pthread", "-o", str(program), str(source)], check=True)
    guest.put_project("tests")
    guest.put({PLANTER: program.read_bytes()}, PROJECT)
    return guest


def run_tests(guest: Guest, *words: str, timeout_s: float = 600) -> tuple[Ran, ...]:
    """Run tests of the project inside the guest and return each one's fate; at least one has to have run."""
    guest.run(["rm", "-f", "/tmp/tests.xml"]).check()
    done = guest.python(RUN_TESTS, {"words": list(words)}, cwd=PROJECT, timeout_s=timeout_s)
    assert done.code in (0, 1), f"pytest ended with {done.code}\n{done.text[-3000:]}\n{done.error_text[-3000:]}"
    found = []
    for case in ET.fromstring(guest.read("/tmp/tests.xml")).iter("testcase"):
        fate = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        found.append(
            Ran(
                name=case.get("name", ""),
                outcome="passed" if fate is None else fate.tag,
                said="" if fate is None else f"{fate.get('message', '')}\n{fate.text or ''}"[-2500:],
            )
        )
    assert found
    return tuple(found)


def assert_all_passed(ran: tuple[Ran, ...], skips: str = "") -> None:
    """Every test passed; ``skips``: a pattern of the reasons for which some may have been skipped."""
    broken = [case for case in ran if case.outcome in ("failure", "error")]
    assert not broken, "\n".join(f"== {case.name}: {case.outcome}\n{case.said}" for case in broken)
    silent = [case for case in ran if case.outcome == "skipped" and not (skips and re.search(skips, case.said))]
    assert silent == []


@EVERY_KERNEL
def test_affinity_changes_are_observed_without_tracing_system_calls(equipped: Guest) -> None:
    """Where BPF trampolines are, the program at the return of ``sched_setaffinity`` runs; nothing is skipped."""
    assert_all_passed(run_tests(equipped, "tests/integration/test_probe_actions.py"))


@EVERY_KERNEL
@pytest.mark.parametrize("name", ["contract", "recall", "interrupts", "bandwidth"])
def test_probes_hold_what_they_promise(equipped: Guest, name: str) -> None:
    """The probes' own tests pass on every kernel of the lab."""
    assert_all_passed(run_tests(equipped, f"tests/integration/test_probe_{name}.py"), skips="software emulation")


@guests(GuestKind())
@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_real_containers_on_v2(equipped: Guest, runtime: str) -> None:
    """Containers of both runtimes start, are what was asked for, can be updated, and leave no trace."""
    names = "asked_for or update_and_restart or refusal or every_workload"
    ran = run_tests(equipped, "tests/integration/test_apply_runtimes.py", "-k", f"({names}) and {runtime}")
    assert len(ran) > 10
    assert_all_passed(ran)


JUDGED_CONTAINERS = """
import json, time
from toolkit.apply.sandbox import sandbox
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind
from toolkit.model.serde import to_data
from toolkit.pipeline import observe
from validators.registry import judge
from tests.integration.apply_support import traces, wait_until

keeps, strays, wrong = (CpuSet.parse(text) for text in ("4-5", "2-3", "6-7"))
wanted = tuple(
    ContainerRequest(
        claim=name, cgroup=CgroupRequest(path=f"pod-{name}/c", cpus=cpus), workloads=(Workload(kind=kind),)
    )
    for name, cpus, kind in (("keeps", keeps, WorkloadKind.AFFINITY_ESCAPER), ("strays", strays, WorkloadKind.PULSE))
)
run_id = "lab-" + ARGS["runtime"]
pods = (CgroupRequest(path="pod-keeps"), CgroupRequest(path="pod-strays"))
with sandbox(SandboxRequest(parents=pods, containers=wanted), run_id=run_id, runtime=ARGS["runtime"]) as live:
    places = {one.claim: one.cgroup for one in live.value.containers}
    claims = ClaimSet(
        claims=tuple(
            Claim(name=name, pod=name, container="c", cgroup=places[name], cpus=cpus, isolation=Isolation.CONTAINER)
            for name, cpus in (("keeps", keeps), ("strays", wrong))
        ),
        reserved_cpus=CpuSet.of([0]),
        pods_root=live.value.root,
    )
    evidence = observe.observe(claims, observe.Window(run_id=run_id, duration_s=2.0))
gone = wait_until(lambda: traces(run_id) == [], 60)
print(json.dumps({"verdicts": [to_data(v) for v in judge(claims, evidence)], "left": [] if gone else traces(run_id)}))
"""


@guests(GuestKind())
@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_containers_are_judged(equipped: Guest, runtime: str) -> None:
    """A container on its CPUs is not reported, one that is claimed to be elsewhere is; nothing is left."""
    done = equipped.python(JUDGED_CONTAINERS, {"runtime": runtime}, timeout_s=300).check()
    found = json.loads(done.text)
    by_subject = verdicts_of(found, "cpuset-containment")
    assert_clean(by_subject["keeps"])
    assert by_subject["strays"]["outcome"] == "failed"
    assert {who["cpu"] for who in by_subject["strays"]["offenders"]} <= {2, 3}
    assert found["left"] == []


def verdicts_of(found: dict[str, Any], rule: str) -> dict[str, dict[str, Any]]:
    """Return a rule's verdicts by subject."""
    return {verdict["subject"]: verdict for verdict in found["verdicts"] if verdict["rule"] == rule}


TIMING = (
    r"the planted escape was reported after [\d.]+ ms \(stated: \d+ ms\)",
    r"\S+: CPU time by the ledger [\d.]+ ms, by the cgroup [\d.]+ ms \(allowed .*\)",
)
"""Doubts that come from reports being late, and from two accounts being read one after the other, while the host has
taken the guest's CPUs away: they keep a verdict from passing, as they should, and say nothing about the kernel."""


def assert_clean(verdict: dict[str, Any]) -> None:
    """Assert that a verdict passed, or that nothing but the emulator's timing kept it from passing."""
    if verdict["outcome"] == "undecided":
        doubts = verdict["reason"].split("; ")
        assert [doubt for doubt in doubts if not any(re.fullmatch(known, doubt) for known in TIMING)] == []
    else:
        assert verdict["outcome"] == "passed", verdict
    assert verdict["offenders"] == []


ESCAPE = """
import json
from tests.integration.probe_lab import SOURCE, Planter, cgroup, join
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import to_data
from toolkit.pipeline import observe
from validators.registry import judge

LOW, HIGH = ARGS["low"], ARGS["high"]
program = SOURCE.with_suffix("")
with cgroup("pinproof-sparse") as path:
    for name in ("db", "web"):
        cgroupfs.identity_dir(cgroupfs.detect(), f"{path}/{name}").mkdir()
    claims = ClaimSet(
        claims=tuple(
            Claim(name=name, pod=name, container="c", cgroup=f"{path}/{name}", cpus=CpuSet.parse(cpus),
                  isolation=Isolation.CONTAINER)
            for name, cpus in (("db", ARGS["db"]), ("web", ARGS["web"]))
        ),
        reserved_cpus=CpuSet.of([0]),
        pods_root=path,
    )
    window = observe.Window(run_id="lab-sparse", duration_s=None)
    mode = ("hop", LOW, HIGH, 40, 1_000_000) if ARGS["escapes"] else ("ping", LOW, LOW, 4000, 0)
    with (
        observe.observation(claims, window) as opened,
        Planter(program, *mode) as db,
        Planter(program, "ping", HIGH, HIGH, 4000, 0) as web,
    ):
        join(f"{path}/db", db.process.pid)
        join(f"{path}/web", web.process.pid)
        for run in (db, web):
            run.go()
        truths = [run.truth() for run in (db, web)]
        opened.poll(0)
        evidence = opened.close()
        for run in (db, web):
            run.end()
print(json.dumps({
    "verdicts": [to_data(verdict) for verdict in judge(claims, evidence)],
    "coverage": to_data(evidence.coverage),
    "cpu_use": [to_data(row) for row in evidence.cpu_use],
    "escapes": truths[0].escapes,
    "pid": db.process.pid,
}))
"""
LOW_CPU, HIGH_CPU = 3, 65


@pytest.fixture
def sparse(equipped: Guest) -> Iterator[Guest]:
    """The sparse machine with CPU 3 online too, so that two claims sit at the same bit of two different words."""
    file = f"/sys/devices/system/cpu/cpu{LOW_CPU}/online"
    equipped.sh(f"echo 1 > {file}")
    yield equipped
    equipped.sh(f"echo 0 > {file}")


@guests(GuestKind(topology=SPARSE, kernel="6.12"))
@pytest.mark.parametrize("escapes", [False, True], ids=["kept", "escaped"])
def test_cpu_ids_on_both_sides_of_64(sparse: Guest, escapes: bool) -> None:
    """Containment, exclusivity and completeness with sparse ids; an escape from CPU 3 to CPU 65 is told with CPU 65."""
    args = {"low": LOW_CPU, "high": HIGH_CPU, "db": "1,3", "web": "62,64-65,95", "escapes": escapes}
    found = json.loads(sparse.python(ESCAPE, args, timeout_s=300).check().text)
    contained, exclusive = verdicts_of(found, "cpuset-containment"), verdicts_of(found, "exclusive-cpus")
    coverage = found["coverage"]

    assert coverage["cpus_seen"] == coverage["cpus_online"] == "0-1,3,62-65,80-81,94-95"
    assert (coverage["lost_events"], coverage["map_full"], coverage["missed_runs"]) == (0, 0, 0)
    missing = abs(coverage["switches_kernel"] - coverage["switches_judged"] - coverage["switches_untraced"])
    assert missing <= coverage["switches_skew"] + coverage["switches_kernel"] * 1e-4
    assert_clean(contained["web"])
    assert_clean(exclusive["db"])
    if not escapes:
        assert_clean(contained["db"])
        assert_clean(exclusive["web"])
        return
    assert found["escapes"] == 40
    for verdict in (contained["db"], exclusive["web"]):
        assert verdict["outcome"] == "failed", verdict
        assert {(who["claim"], who["tid"], who["cpu"]) for who in verdict["offenders"]} == {
            ("db", found["pid"], HIGH_CPU)
        }
    assert contained["db"]["measures"]["out_of_set_switches"] >= 40


@guests(GuestKind())
def test_doctor_finds_everything_on_v2(guest: Guest) -> None:
    """Every capability is there, runc and crun too, and every verb works."""
    report = json.loads(guest.pinproof("doctor", "--json").check().text)
    assert report["can_run"] is True
    assert [fact for fact in report["capabilities"] if not fact["available"]] == []
    assert {verb: missing for verb, missing in report["verbs"].items() if missing} == {}
    (cgroup,) = [fact for fact in report["capabilities"] if fact["name"] == "cgroup2"]
    assert "v2" in cgroup["detail"]


@guests(GuestKind())
def test_doctor_says_what_is_missing(guest: Guest) -> None:
    """Without any kernel headers ``run`` cannot work: exit code 4, the one capability that lacks, how to get it."""
    hide = "mount -t tmpfs none /usr/src && mount -t tmpfs none /lib/modules && exec pinproof doctor --json"
    done = guest.run(["unshare", "--mount", "sh", "-c", hide], timeout_s=120)
    assert done.code == 4, done.error_text
    report = json.loads(done.text)
    assert report["can_run"] is False
    (fact,) = [fact for fact in report["capabilities"] if not fact["available"]]
    assert "header" in fact["name"]
    assert fact["remedy"]


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
def test_watch_judges_what_somebody_else_made(guest: Guest, cpus: str, outcome: str) -> None:
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
        found = json.loads(done.text)
        verdict = verdicts_of(found, "cpuset-containment")["shop"]
        if outcome == "failed":
            assert (done.code, verdict["outcome"]) == (1, "failed"), done.error_text
            assert {who["cpu"] for who in verdict["offenders"]} <= {2, 3}
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
