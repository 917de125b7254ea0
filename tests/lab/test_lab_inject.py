"""Faults that the build machine cannot or may not have: CPUs that go and come back, cpusets emptied on v2, an
interrupt that can be moved.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.harness.guest import Guest
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind

EVERY_HIERARCHY = guests(
    *(GuestKind(kernel=kernel, cgroup=cgroup) for kernel in ("6.1", "6.12") for cgroup in ("v2", "hybrid"))
)
PLANT = """
import json
from pathlib import Path
from toolkit.faults.injection import Injection
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import Workload, WorkloadKind
from toolkit.model.serde import to_data
from toolkit.session import planted_run

online = Path("/sys/devices/system/cpu/online")
before = online.read_text()
injection = Injection(fault=ARGS["fault"], consent=True)
# A light load: the emulated CPUs share what the host can spare.
light = (Workload(kind=WorkloadKind.PULSE, threads=1),)
done = planted_run.run(injection, run_id="lab-inject", duration_s=4.0, loads=light)
print(json.dumps({
    "missed": list(done.missed),
    "unjudged": done.unjudged,
    "irq_use": [to_data(row) for row in done.evidence.irq_use or ()],
    "verdicts": [to_data(verdict) for verdict in done.verdicts],
    "hotplug": [to_data(event) for event in done.evidence.hotplug],
    "transitions": [to_data(change) for change in done.evidence.transitions],
    "changes": [to_data(change) for change in done.changes],
    "online": [before, online.read_text()],
    "left": sorted(path.name for path in Path("/run").glob("pinproof/*")),
}))
"""


def plant(guest: Guest, fault: str) -> dict[str, Any]:
    """Plant one fault in a sandbox of the guest and judge it there."""
    return dict(json.loads(guest.python(PLANT, {"fault": fault}, timeout_s=400).check().text))


def told(found: dict[str, Any]) -> str:
    """What the rules said, for a failure's message."""
    return "\n".join(f"{v['rule']} {v['subject']}: {v['outcome']}: {v['reason']}" for v in found["verdicts"])


REPLUG = """
import json, time
from pathlib import Path
from probes.cgroups.bandwidth import lineage
from toolkit.apply import cgroups
from toolkit.apply.sandbox import sandbox
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import Workload, WorkloadKind
from toolkit.model.serde import to_data
from toolkit.session import planted_run
from toolkit.session.engine import observe
from toolkit.session.engine.window import Window
from validators.registry import judge

switch = Path(f"/sys/devices/system/cpu/cpu{ARGS['cpu']}/online")
online = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text())
own = CpuSet.of([ARGS["cpu"] - 1, ARGS["cpu"]])

def window(name, during):
    with observe.observation(claims, Window(run_id=f"lab-{name}", duration_s=None)) as opened:
        opened.poll(1.0)
        seen = during(opened)
        opened.poll(1.0)
        evidence = opened.close().evidence
    return {
        "seen": seen,
        "verdicts": [to_data(verdict) for verdict in judge(claims, evidence)],
        "hotplug": [(event.cpu, event.online) for event in evidence.hotplug],
        "transitions": [to_data(change) for change in evidence.transitions],
        "duration_ns": evidence.duration_ns,
        "cpus_seen": str(evidence.coverage.cpus_seen),
        "blind_spots": evidence.coverage.blind_spots,
    }

def until_noted(opened, count):
    deadline = time.monotonic() + 60
    while len(opened.snapshot().hotplug) < count:
        assert time.monotonic() < deadline, "the event does not arrive"
        opened.poll(0.5)

def pull_and_plug(opened):
    places = {container.claim: container.cgroup for container in live.value.containers}
    def granted():
        return str(cgroupfs.read_files(live.hierarchy, places[planted_run.EXCLUSIVE], 0).cpus_effective)
    seen = [granted()]
    switch.write_text("0")
    until_noted(opened, 1)
    seen.append(granted())
    switch.write_text("1")
    until_noted(opened, 2)
    if not live.hierarchy.is_v2("cpuset"):
        # v1 forgets a CPU that went, at every level: its manager has to give it back, from the top.
        for parent in reversed(lineage(places[planted_run.EXCLUSIVE])[1:]):
            cgroups.set_cpus(live.hierarchy, parent, online)
        live.set_cpus(planted_run.EXCLUSIVE, own)
    seen.append(granted())
    return seen

# A light load: the emulated CPUs share what the host can spare.
light = (Workload(kind=WorkloadKind.PULSE, threads=1),)
with sandbox(planted_run.request(own, online - own, light), run_id="lab-replug") as live:
    places = {container.claim: container.cgroup for container in live.value.containers}
    claims = planted_run.claim_set(places, own, online - own, live.value.root)
    found = {"pulled": window("pulled", pull_and_plug), "after": window("after", lambda opened: None)}
print(json.dumps(found))
"""


def switch_verdicts(found: dict[str, Any], rule: str, subject: str) -> list[dict[str, Any]]:
    """Return the verdicts of a rule about a claim."""
    return [v for v in found["verdicts"] if (v["rule"], v["subject"]) == (rule, subject)]


@EVERY_HIERARCHY
def test_a_cpu_pulled_and_plugged_in_again(guest: Guest) -> None:
    """Both events are noted and mark the claim's interval, nothing passes on it; the next window passes again."""
    cpu = max(guest.topology.online_cpus)
    found = json.loads(guest.python(REPLUG, {"cpu": cpu}, timeout_s=400).check().text)
    pulled, after = found["pulled"], found["after"]
    own, rest = f"{cpu - 1}-{cpu}", str(cpu - 1)

    assert pulled["hotplug"] == [[cpu, False], [cpu, True]]
    assert [spot for spot in pulled["blind_spots"] if "hotplug" in spot] == []
    assert pulled["seen"] == [own, rest, own]
    marked = [change for change in pulled["transitions"] if change["cause"] == "hotplug"]
    assert [(change["claim"], change["what"]) for change in marked] == [
        ("guaranteed/db", "cpu-offline"),
        ("guaranteed/db", "cpu-online"),
    ]
    assert marked[0]["cpus_after"] == rest
    for change in marked:
        assert 0 <= change["start_at_ns"] <= change["end_at_ns"] <= pulled["duration_ns"]
    passed = [(v["rule"], v["subject"]) for v in pulled["verdicts"] if v["outcome"] == "passed"]
    assert passed == []
    assert after["hotplug"] == []
    assert after["cpus_seen"] == str(guest.topology.online_cpus)
    for rule in ("cpuset-containment", "exclusive-cpus"):
        assert [v["outcome"] for v in switch_verdicts(after, rule, "guaranteed/db")] == ["passed"], after["verdicts"]


@EVERY_HIERARCHY
def test_a_cpu_that_goes_offline_is_noticed_and_comes_back(guest: Guest) -> None:
    """The event is in the evidence, the claim's interval is marked, nothing passes on it, all is restored."""
    found = plant(guest, "cpu-offline")

    assert found["missed"] == [], told(found)
    cpu = max(event["cpu"] for event in found["hotplug"])
    assert {"cpu": cpu, "online": False} in [
        {"cpu": event["cpu"], "online": event["online"]} for event in found["hotplug"]
    ]
    (marked,) = [change for change in found["transitions"] if change["what"] == "cpu-offline"]
    assert (marked["claim"], marked["cause"]) == ("guaranteed/db", "hotplug")
    assert {"cpuset-containment", "exclusive-cpus"} <= {v["rule"] for v in found["verdicts"]}
    assert [(v["rule"], v["subject"]) for v in found["verdicts"] if v["outcome"] == "passed"] == []
    assert found["online"][0] == found["online"][1]
    assert found["left"] == []


@guests(GuestKind())
@pytest.mark.parametrize("fault", ["cpuset-emptied", "pool-emptied"])
def test_cpusets_lose_their_own_cpus_on_v2(guest: Guest, fault: str) -> None:
    """A populated cpuset cannot be emptied: it gets what empty would mean, its parent's CPUs; reported, taken back."""
    found = plant(guest, fault)

    assert found["missed"] == [], told(found)
    written = {change["after"] for change in found["changes"] if change["path"].endswith("/cpuset.cpus")}
    assert written == {str(guest.topology.online_cpus)}
    assert found["left"] == []


@contextlib.contextmanager
def traffic(guest: Guest) -> Iterator[None]:
    """Keep sending small requests: each is an interrupt of the agent's port."""
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            guest.run(["true"])

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        stop.set()
        sender.join()


@guests(GuestKind(), GuestKind(kernel="6.12"))
def test_an_interrupt_is_moved_onto_an_exclusive_cpu(guest: Guest) -> None:
    """The busiest interrupt that can be moved is counted on the exclusive CPU while it is there, and is moved back."""
    with traffic(guest):
        found = plant(guest, "irq-moved")

    cpu = max(guest.topology.online_cpus)
    (change,) = found["changes"]
    number = int(change["path"].removeprefix("/proc/irq/").removesuffix("/smp_affinity_list"))
    assert change["after"] == str(cpu)
    rows = [row for row in found["irq_use"] if (row["kind"], row["vector"], row["cpu"]) == ("hard", number, cpu)]
    assert sum(row["count"] for row in rows) > 0, found["irq_use"]
    assert found["missed"] == []
    assert "virtual machine" in found["unjudged"]["noise"]
    assert guest.read(change["path"]).strip() == change["before"].strip()
    assert found["left"] == []
