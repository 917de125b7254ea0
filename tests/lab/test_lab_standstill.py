"""A machine that stands still while a quota is watched: no task can be throttled meanwhile, and none is blamed for it.

The emulator is stopped for a moment. The guest's clock goes on and nothing tells it of steal: what runs is charged the
whole time, as where a hypervisor's thread sleeps, or firmware takes the CPU.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace

from tests.lab.harness.guest import Guest
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.topology import PAIR
from toolkit.model import serde
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome, Verdict
from validators.rules.quota_throttling import RULE

STANDSTILL_S, PAUSE_S = 0.4, 0.9

WATCH_QUOTAS = """
import json, time
from probes.loaded import observing
from toolkit.apply.sandbox import sandbox
from toolkit.host.environment import read_environment
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind
from toolkit.model.serde import to_data
from validators.rules.quota_throttling import RULE
from dataclasses import replace

# Together they fill nine tenths of a CPU: one of them nearly always runs when everything stops. The filler has the
# rest: an idle CPU that stands still cannot be told from one that sleeps.
names, cpus, quota, windows = "abc", CpuSet.of([1]), {"quota_us": 30_000, "period_us": 100_000}, []
places = [CgroupRequest(path=name, cpus=cpus, **quota) for name in names]
places.append(CgroupRequest(path="filler", cpus=cpus, weight=1))
wanted = tuple(
    ContainerRequest(claim=place.path, cgroup=place, workloads=(Workload(kind=WorkloadKind.SPIN),)) for place in places
)
with sandbox(SandboxRequest(containers=wanted), run_id="lab") as live:
    places = {one.claim: one.cgroup for one in live.value.containers}
    claims = ClaimSet(claims=tuple(Claim(name=n, cgroup=places[n], cpus=cpus, demand_cpus=1.0, **quota) for n in names))
    environment, deadline = read_environment(), time.monotonic() + 100
    with observing(claims) as observer:
        while time.monotonic() < deadline:
            observer.open_window()
            observer.poll(1.5)
            evidence = replace(observer.close_window(), environment=environment)
            windows.append(to_data(evidence))
            if any("stood still" in verdict.reason for verdict in RULE(claims, evidence)):
                break
print(json.dumps({"claims": to_data(claims), "windows": windows}))
"""


def failures(claims: ClaimSet, evidence: Evidence) -> list[Verdict]:
    return [verdict for verdict in RULE(claims, evidence) if verdict.outcome is Outcome.FAILED]


@guests(GuestKind(topology=PAIR))
def test_what_ran_while_the_machine_stood_still_is_not_blamed(guest: Guest) -> None:
    """No window fails; one would have, had the probes not told how long its CPU took no timer interrupt."""
    watching = guest.start_python(WATCH_QUOTAS, timeout_s=200)
    while not watching.ended:
        time.sleep(PAUSE_S)
        guest.machine.stand_still(STANDSTILL_S)
    found = json.loads(watching.result().check().text)
    claims = serde.from_data(ClaimSet, found["claims"], "claims of the guest")
    windows = [serde.from_data(Evidence, window, "evidence of the guest") for window in found["windows"]]

    assert [verdict for evidence in windows for verdict in failures(claims, evidence)] == []
    last = windows[-1]
    assert last.steal_ns == 0
    blind = tuple(replace(row, standstill_ns=0) for row in last.cpu_use)
    assert failures(claims, replace(last, cpu_use=blind))
