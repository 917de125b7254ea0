"""Sandbox and observer on kernels and machines that the build machine is not: cgroup v2, PREEMPT_RT, CPU ids above 63.

Each guest gets two containers: one keeps its claim, one is claimed to be elsewhere. The observer must clear the first
and report the second, having judged the kernel's every switch.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lab.harness import limits
from tests.lab.harness.debian import KERNELS
from tests.lab.harness.guest import Guest
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.topology import SPARSE, WIDE
from toolkit.model import serde
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence

EVERYWHERE = guests(
    *(GuestKind(kernel=kernel) for kernel in KERNELS),
    GuestKind(cgroup="hybrid"),
    GuestKind(topology=WIDE),
    GuestKind(topology=SPARSE, kernel="6.12"),
)

WATCH = """
import json, time
from probes.loaded import observing
from toolkit.apply.sandbox import sandbox
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind
from toolkit.model.serde import to_data

runs = {name: CpuSet.parse(cpus) for name, cpus in ARGS["runs"].items()}
promised = {name: CpuSet.parse(cpus) for name, cpus in ARGS["promised"].items()}
spin = (Workload(kind=WorkloadKind.SPIN, threads=1),)
wanted = tuple(
    ContainerRequest(claim=name, cgroup=CgroupRequest(path=name, cpus=cpus), workloads=spin)
    for name, cpus in runs.items()
)
with sandbox(SandboxRequest(containers=wanted), run_id="lab") as live:
    places = {one.claim: one.cgroup for one in live.value.containers}
    claims = tuple(Claim(name=name, cgroup=places[name], cpus=cpus) for name, cpus in promised.items())
    with observing(ClaimSet(claims=claims)) as observer:
        observer.open_window()
        reported, deadline = set(), time.monotonic() + 60
        while "strays" not in reported and time.monotonic() < deadline:
            reported |= {violation.claim for violation in observer.poll(0.5)}
        evidence = observer.close_window()
left = [name for name in cgroupfs.subtree(cgroupfs.detect(), "/") if "pinproof" in name]
print(json.dumps({"evidence": to_data(evidence), "reported": sorted(reported), "left": left}))
"""


def first_and_last(guest: Guest) -> dict[str, dict[str, str]]:
    """Let one container run on the highest CPUs, as promised, and one on the lowest, promised the highest."""
    ids = list(guest.topology.online_cpus)
    low, high = str(CpuSet.of(ids[1:3])), str(CpuSet.of(ids[-3:]))
    return {"runs": {"keeps": high, "strays": low}, "promised": {"keeps": high, "strays": high}}


@pytest.fixture(scope="module")
def watched(guest: Guest) -> dict[str, Any]:
    """Run the two containers once for the tests of this module."""
    return dict(json.loads(guest.python(WATCH, first_and_last(guest), timeout_s=400).check().text))


@pytest.fixture(scope="module")
def evidence(watched: dict[str, Any]) -> Evidence:
    """Return what the observer brought home."""
    return serde.from_data(Evidence, watched["evidence"], "evidence of the guest")


@EVERYWHERE
def test_the_container_that_strays_is_reported(guest: Guest, watched: dict[str, Any], evidence: Evidence) -> None:
    """The false claim is reported while the window is open, with the CPUs where its task really ran."""
    assert watched["reported"] == ["strays"]
    ran_on = CpuSet.parse(first_and_last(guest)["runs"]["strays"])
    rows = [row for row in evidence.cpu_use if row.claim == "strays" and row.run_ns]
    assert rows
    assert CpuSet.of(row.cpu for row in rows) <= ran_on
    assert sum(row.out_of_set_switches + row.out_of_set_samples for row in rows) > 0


@EVERYWHERE
def test_the_container_that_keeps_its_claim_is_clean(guest: Guest, evidence: Evidence) -> None:
    """The kept claim shows work on its own CPUs and nothing outside, also with ids above 63."""
    promised = CpuSet.parse(first_and_last(guest)["promised"]["keeps"])
    rows = [row for row in evidence.cpu_use if row.claim == "keeps" and row.run_ns]
    assert rows
    assert CpuSet.of(row.cpu for row in rows) <= promised
    assert [row for row in rows if row.out_of_set_switches or row.out_of_set_samples] == []


@EVERYWHERE
def test_every_switch_was_judged(guest: Guest, evidence: Evidence) -> None:
    """The observer's count is the kernel's, within the measured skew of the two reads; nothing was lost."""
    coverage = evidence.coverage
    assert (coverage.lost_events, coverage.map_full, coverage.missed_runs) == (0, 0, 0)
    assert coverage.switches_judged > 0
    difference = abs(coverage.switches_kernel - coverage.switches_judged)
    assert difference <= max(coverage.switches_skew, coverage.switches_kernel // 1000)
    assert coverage.cpus_seen == guest.topology.online_cpus


@EVERYWHERE
@pytest.mark.usefixtures("watched")
def test_doctor_has_asked_this_kernel(guest: Guest) -> None:
    """It has loaded the programs, not concluded from what they are made of; they were compiled before."""
    report = json.loads(guest.pinproof("doctor", "--json").check().text)
    (row,) = [fact for fact in report["capabilities"] if fact["name"] == "probes"]
    assert row["available"], row["detail"]


@EVERYWHERE
def test_nothing_is_left(guest: Guest, watched: dict[str, Any]) -> None:
    """After the sandbox no cgroup of ours exists in any hierarchy."""
    assert watched["left"] == []


@guests(GuestKind())
def test_latency_is_not_certified(guest: Guest) -> None:
    """How soon an escape is reported is measured on real machines only."""
    limits.skip(limits.Aspect.LATENCY)
