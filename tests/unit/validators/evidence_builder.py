"""Healthy evidence of a small machine, made by hand, for the rules' tests to spoil one piece at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toolkit.model.claims import Claim, ClaimSet, ExclusivePolicy, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import (
    BandwidthUse,
    Canary,
    CgroupFiles,
    ControlWrite,
    Coverage,
    CpuUse,
    Environment,
    Evidence,
    Intruder,
    OwnerClass,
    ThreadMask,
    UsageBin,
)
from toolkit.model.state_files import CpuEntry, CpuStateFile, StateReading

SECOND = 1_000_000_000
WINDOW_NS = 10 * SECOND


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def claim_db(**changes: object) -> Claim:
    """``db``: exclusive on CPUs 2-3, no quota."""
    claim = Claim(
        name="db", cgroup="/kubepods/poda/db", pod="a", cpus=cpus("2-3"), isolation=Isolation.CONTAINER, quota_us=-1
    )
    return replace(claim, **changes)  # type: ignore[arg-type]


def claim_web(**changes: object) -> Claim:
    """``web``: half a CPU on the shared pool 0-1, busy with two threads."""
    claim = Claim(
        name="web",
        cgroup="/kubepods/podb/web",
        pod="b",
        cpus=cpus("0-1"),
        quota_us=50_000,
        period_us=100_000,
        demand_cpus=2.0,
    )
    return replace(claim, **changes)  # type: ignore[arg-type]


def claim_set(*claims: Claim, **changes: object) -> ClaimSet:
    value = ClaimSet(claims=claims or (claim_db(), claim_web()), policy=ExclusivePolicy.K8S, pods_root="/kubepods")
    return replace(value, **changes)  # type: ignore[arg-type]


def one_owner() -> StateReading:
    """The kubelet's CPU state: container ``db`` owns CPUs 2-3, the pool has the rest of a machine with four."""
    entry = CpuEntry(pod_uid="u", container="db", cpus="2-3")
    file = CpuStateFile(text="", version=3, policy="static", default="0-1", checksum_ok=True, entries=(entry,))
    return StateReading(at_ns=0, cpus_online=cpus("0-3"), cpu=file, cpu_policy="static")


def use(claim: str, cpu: int, **changes: object) -> CpuUse:
    row = CpuUse(claim=claim, cpu=cpu, switches=1000, run_ns=SECOND, samples=100)
    return replace(row, **changes)  # type: ignore[arg-type]


def intruder(owner: OwnerClass, cpu: int = 2, **changes: Any) -> Intruder:
    """A task without a claim that ran for 5 us on an exclusive CPU."""
    values: dict[str, Any] = {
        "cpu": cpu,
        "tid": 77,
        "comm": "guest",
        "owner": owner,
        "cgroup": "/kubepods/podx/c",
        "switches": 1,
        "total_ns": 5_000,
        "longest_ns": 5_000,
        "first_at_ns": 1,
    }
    return Intruder(**{**values, **changes})


def mask(claim: str, allowed: str, **changes: object) -> ThreadMask:
    value = ThreadMask(
        claim=claim,
        pid=100,
        tid=100,
        comm=claim,
        cpus_allowed=cpus(allowed),
        mems_allowed=cpus("0"),
        times_seen=40,
        first_at_ns=0,
        last_at_ns=WINDOW_NS,
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def control_write(at_s: float, cgroup: str, value: str, **changes: object) -> ControlWrite:
    """Return an accepted write to a cgroup's ``cpuset.cpus``."""
    row = ControlWrite(
        at_ns=round(at_s * SECOND),
        cgroup=cgroup,
        hierarchy="v2",
        file="cpuset.cpus",
        value=value,
        value_bytes=len(value),
        errno=0,
        pid=4711,
        tid=4711,
        comm="sh",
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def files(cgroup: str, **changes: object) -> CgroupFiles:
    return replace(CgroupFiles(cgroup=cgroup, at_ns=0), **changes)  # type: ignore[arg-type]


def db_files(**changes: object) -> CgroupFiles:
    value = files(
        "/kubepods/poda/db",
        cpus=cpus("2-3"),
        cpus_effective=cpus("2-3"),
        mems=cpus("0"),
        mems_effective=cpus("0"),
        quota_us=-1,
        period_us=100_000,
        burst_us=0,
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def web_files(**changes: object) -> CgroupFiles:
    value = files(
        "/kubepods/podb/web",
        cpus=cpus("0-1"),
        cpus_effective=cpus("0-1"),
        mems=cpus("0"),
        mems_effective=cpus("0"),
        quota_us=50_000,
        period_us=100_000,
        burst_us=0,
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def bandwidth(claim: str, cgroup: str, level: int = 0, **changes: object) -> BandwidthUse:
    """One level without quota that used two seconds of CPU time."""
    value = BandwidthUse(
        claim=claim,
        cgroup=cgroup,
        level=level,
        window_ns=WINDOW_NS,
        usage_ns=2 * SECOND,
        nr_periods=0,
        nr_throttled=0,
        throttled_ns=0,
        quota_us=-1,
        period_us=100_000,
        burst_us=0,
        bpf_usage_ns=2 * SECOND,
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def web_bandwidth(**changes: object) -> BandwidthUse:
    """``web`` held at 0.4996 CPUs by its quota, in every period."""
    value = bandwidth(
        "web",
        "/kubepods/podb/web",
        usage_ns=4_996_000_000,
        bpf_usage_ns=4_997_000_000,
        nr_periods=100,
        nr_throttled=100,
        throttled_ns=15 * SECOND,
        quota_us=50_000,
    )
    return replace(value, **changes)  # type: ignore[arg-type]


POSITIVE = Canary(
    positive=True,
    cpu=0,
    planted_at_ns=1_000_000,
    reported_at_ns=3_100_000,
    planted_switches=500,
    out_of_set_switches=500,
    run_ns=50_000_000,
    out_of_set_ns=50_000_000,
)
CLEAN = Canary(
    positive=False,
    cpu=0,
    planted_at_ns=0,
    reported_at_ns=None,
    planted_switches=500,
    out_of_set_switches=0,
    run_ns=50_000_000,
)


def coverage(**changes: object) -> Coverage:
    value = Coverage(
        switches_judged=1_204_331,
        switches_kernel=1_204_331,
        switches_skew=4,
        cpus_seen=cpus("0-3"),
        cpus_online=cpus("0-3"),
        sampler_hz=99,
        proc_scans=40,
        positive_control_latency_ms=2.1,
    )
    return replace(value, **changes)  # type: ignore[arg-type]


BY_CPU = ("steal_by_cpu_ns", "standstill_by_cpu_ns")


def on_every_cpu(changes: dict[str, Any]) -> dict[str, Any]:
    """Return changes of evidence in which what is given of some CPUs is 0 on the others."""
    given = {name: changes[name] for name in BY_CPU if changes.get(name) is not None}
    return changes | {name: dict.fromkeys(range(16), 0) | times for name, times in given.items()}


def in_slots(rows: tuple[CpuUse, ...], window_ns: int = WINDOW_NS) -> tuple[UsageBin, ...]:
    """What was used, evenly in a hundred slots of the window."""
    ran: dict[str, int] = {}
    for row in rows:
        ran[row.claim] = ran.get(row.claim, 0) + row.run_ns
    length_ns = max(1, window_ns // 100)
    return tuple(
        UsageBin(claim=claim, start_at_ns=slot * length_ns, length_ns=length_ns, usage_ns=ns // 100)
        for claim, ns in ran.items()
        for slot in range(100)
    )


def balanced(found: Evidence) -> Evidence:
    """Let the ledger's sums be those of its rows, as one observer writes both."""
    ran: dict[str, int] = {}
    for row in found.cpu_use:
        ran[row.claim] = ran.get(row.claim, 0) + row.run_ns
    rows = (replace(row, bpf_usage_ns=ran.get(row.claim, 0)) if row.level == 0 else row for row in found.bandwidth)
    return replace(found, bandwidth=tuple(rows))


def in_a_row(*windows: Evidence) -> tuple[Evidence, ...]:
    """Let each window begin where the one before ends; in none of them the same was counted."""
    found, start_ns = [], 0
    for number, one in enumerate(windows):
        files = {
            name: tuple(replace(file, at_ns=file.at_ns + start_ns) for file in getattr(one, name))
            for name in ("files_before", "files_after")
        }
        found.append(replace(one, start_monotonic_ns=start_ns, toolkit_cpu_ns=one.toolkit_cpu_ns + number, **files))
        start_ns += one.duration_ns
    return tuple(found)


def evidence(**changes: object) -> Evidence:
    """Healthy evidence for ``claim_db()`` and ``claim_web()``; slots are those of what ran, unless they are given."""
    value = Evidence(
        started_at="2026-11-22T01:00:00+00:00",
        start_monotonic_ns=0,
        duration_ns=WINDOW_NS,
        environment=Environment(
            kernel="6.18.0", cgroup="v2", cmdline="", cpus_online=cpus("0-3"), hz=250, bandwidth_slice_us=5000
        ),
        coverage=coverage(),
        cpu_use=(
            use("db", 2),
            use("db", 3),
            use("web", 0, run_ns=2_498_500_000),
            use("web", 1, run_ns=2_498_500_000),
        ),
        thread_masks=(mask("db", "2-3"), mask("web", "0-1", pid=200, tid=200)),
        files_before=(db_files(), web_files()),
        files_after=(db_files(at_ns=WINDOW_NS), web_files(at_ns=WINDOW_NS)),
        bandwidth=(
            bandwidth("db", "/kubepods/poda/db"),
            bandwidth("db", "/kubepods/poda", 1),
            bandwidth("db", "/kubepods", 2, usage_ns=7 * SECOND, bpf_usage_ns=None),
            web_bandwidth(),
            web_bandwidth(cgroup="/kubepods/podb", level=1, bpf_usage_ns=None),
            bandwidth("web", "/kubepods", 2, usage_ns=7 * SECOND, bpf_usage_ns=None),
        ),
        canaries=(POSITIVE, CLEAN),
    )
    value = replace(value, **on_every_cpu({**{key: {} for key in BY_CPU}, **changes}))
    if "usage_bins" in changes:
        return value
    return replace(value, usage_bins=in_slots(value.cpu_use, value.duration_ns))
