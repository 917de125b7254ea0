"""Judged in guests: containers of runc and crun on cgroup v2, and CPU ids above 63 with gaps."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.lab.harness.guest import Guest
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.topology import SPARSE
from tests.lab.harness.verdicts import assert_clean, verdicts_of

JUDGED_CONTAINERS = """
import json, time
from pathlib import Path
from toolkit.apply.sandbox import sandbox
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind
from toolkit.model.serde import to_data
from toolkit.session.engine.session import watched
from toolkit.session.engine.window import Window
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
    evidence = watched(claims, Window(run_id=run_id, duration_s=2.0), Path(run_id)).evidence
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
    assert {row["cpu"] for row in by_subject["strays"]["offenders"]} <= {2, 3}
    assert found["left"] == []


ESCAPE = """
import json
from tests.integration.probe_lab import SOURCE, Planter, cgroup, controls_worked, join
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import to_data
from toolkit.session.engine import observe
from toolkit.session.engine.window import Window
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
    window = Window(run_id="lab-sparse", duration_s=None)
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
        opened.wait(20.0, until=lambda: controls_worked(opened.snapshot()))
        evidence = opened.close().evidence
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
        assert {(row["claim"], row["tid"], row["cpu"]) for row in verdict["offenders"]} == {
            ("db", found["pid"], HIGH_CPU)
        }
    assert contained["db"]["measures"]["out_of_set_switches"] >= 40
