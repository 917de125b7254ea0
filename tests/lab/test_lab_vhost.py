"""Workers of vhost: no fork event announces them, and they run for a process all the same.

Since Linux 6.4 a worker is a thread of the process that owns the device: it is where its process is. Before, it is a
kernel thread that the kernel attaches to the cgroups which the owner has at that moment, and there it stays.
Source: kernel/vhost_task.c; 6.1 drivers/vhost/vhost.c (``vhost_attach_cgroups_work``).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lab.harness.equipped import load_module
from tests.lab.harness.guest import Guest
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.topology import QUAD

KERNELS = guests(*(GuestKind(topology=QUAD, kernel=kernel) for kernel in ("6.1", "6.12")))
INSIDE_OF_CLAIM, OUTSIDE = 2, 3
WAYS = ("born inside", "found there", "moved in", "moved out")
WATCH = """
import json, os, subprocess
from pathlib import Path
from probes.loaded import observing
from tests.integration.membership_lab import home, procs, total, verdict
from tests.integration.probe_lab import cgroup
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet

class Vhost:
    def __init__(self, place):
        join = f"echo 0 >{place}; exec python3 tests/data/probes/vhost.py {ARGS['home']}"
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(["sh", "-ec", join], stdin=pipe, stdout=pipe, text=True)
        self.ids = json.loads(self.process.stdout.readline())

    def work(self, cpu):
        self.process.stdin.write(f"{cpu} {ARGS['rounds']}\\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def cgroup(self, which):
        return Path(f"/proc/{self.ids[which]}/cgroup").read_text().strip().removeprefix("0::")

found = {}
with cgroup("lab-vhost") as path, observing(ClaimSet(claims=())) as observer:
    claim = Claim(name="db", cgroup=path, cpus=CpuSet.of([ARGS["home"]]))
    for way in ARGS["ways"]:
        inside, outside = procs(path), home("self")
        if way != "found there":
            observer.add_claim(claim)
        vhost = Vhost(outside if way == "moved in" else inside)
        if way == "found there":
            observer.add_claim(claim)
        if way.startswith("moved"):
            (inside if way == "moved in" else outside).write_text(str(vhost.ids["pid"]))
            # Before Linux 6.2 a move to another cpuset takes the mask of a task away.
            os.sched_setaffinity(vhost.ids["pid"], {ARGS["home"]})
        found[way] = {"cgroups": {which: vhost.cgroup(which) for which in ("pid", "tid")}, **vhost.ids, "path": path}
        for cpu in ("home", "away"):
            observer.open_window()
            truth = vhost.work(ARGS[cpu])
            evidence = observer.close_window()
            use, coverage = total(evidence), evidence.coverage
            found[way][cpu] = {
                **truth, "run_ns": use.run_ns, "out_ns": use.out_of_set_ns, "transition_ns": use.transition_ns,
                "offenders": [(row.tid, row.comm, row.cpu, row.total_ns) for row in evidence.offenders],
                "lost": [coverage.lost_events, coverage.map_full, coverage.missed_runs],
                "outcome": verdict(ClaimSet(claims=(claim,)), evidence, "cpuset-containment").value,
            }
        vhost.process.stdin.close()
        vhost.process.wait(60)
        observer.remove_claim("db")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def watched(equipped: Guest) -> dict[str, Any]:
    """Let a worker work on its claim's CPU and on another, once for each way in which it came to its claim."""
    load_module(equipped, "vhost_vsock")
    words = {"home": INSIDE_OF_CLAIM, "away": OUTSIDE, "rounds": 30, "ways": WAYS}
    return dict(json.loads(equipped.python(WATCH, words, cwd="/opt/pinproof", timeout_s=240).check().text))


@KERNELS
@pytest.mark.parametrize("way", WAYS)
def test_a_worker_is_where_the_kernel_says(watched: dict[str, Any], guest: Guest, way: str) -> None:
    """A thread of its process and where that is; before 6.4 a kernel thread that stays where it was attached."""
    found = watched[way]
    assert found["home"]["answers"] > 1000
    of_process = guest.kernel != "6.1"
    assert (found["tgid"] == found["pid"]) is of_process
    process, worker = found["cgroups"]["pid"], found["cgroups"]["tid"]
    assert (process == found["path"]) is (way != "moved out")
    assert (process == worker) is (of_process or not way.startswith("moved"))


@KERNELS
@pytest.mark.parametrize("way", WAYS)
def test_a_worker_is_judged_where_it_is(watched: dict[str, Any], guest: Guest, way: str) -> None:
    """On its claim's CPU it is counted and no offence; elsewhere all that it runs is one; a stranger's never is."""
    found = watched[way]
    member = found["cgroups"]["tid"] == found["path"]
    for place in ("home", "away"):
        seen = found[place]
        slack = 0.1 * seen["ran_ns"] + 1_000_000
        assert seen["lost"] == [0, 0, 0]
        assert seen["ran_ns"] > 10_000_000  # ten times what the slack has beside its tenth: how fast a guest is varies
        assert seen["transition_ns"] == 0
        if member and place == "away":
            assert seen["ran_ns"] - slack <= seen["out_ns"] <= seen["ran_ns"] + slack, seen
            assert {(tid, cpu) for tid, _, cpu, _ in seen["offenders"]} == {(found["tid"], OUTSIDE)}
            assert {comm for _, comm, _, _ in seen["offenders"]} == {f"vhost-{found['pid']}"}
            assert seen["outcome"] == "failed"
        else:
            assert (seen["out_ns"], seen["offenders"]) == (0, []), seen
            assert seen["outcome"] != "failed"
        if member and place == "home":
            assert seen["run_ns"] >= seen["ran_ns"] - slack
