"""A scenario as a healthy machine would show it: evidence made of what was written to the sandbox, not of the claims.

Only the last stage, in which everything that stays is there. The loads get what their cgroups allow them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from tests.unit.validators.evidence_builder import CLEAN, POSITIVE, WINDOW_NS, coverage
from toolkit.host.environment import summary
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import BandwidthUse, CgroupFiles, CpuUse, Environment, Evidence, Runtime, ThreadMask
from toolkit.model.placement import DevicePlace, HugetlbUse, PageKind, PageReading, PageUse
from toolkit.model.plan import Plan
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, Sandbox, SandboxContainer, SandboxRequest
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.session.engine.kubelet_state import node_evidence
from toolkit.session.planning.from_plan import Stage, claim_set, sandbox_request
from toolkit.session.planning.judged import fullest
from toolkit.session.planning.planned import Planned, plan_all

ROOT = "/pinproof-stand"
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """What is claimed and what was seen. :param plan: in force. :param online: CPUs of the machine."""

    claims: ClaimSet
    evidence: Evidence
    plan: Plan
    online: CpuSet
    nodes: CpuSet


def stand(scenario: Scenario, topology: Topology) -> Stand:
    """Put a scenario on a machine that does not exist."""
    work = plan_all(scenario, topology)
    stage = fullest(work)
    request = sandbox_request(stage.plan, scenario, stage.containers)
    made = Sandbox(
        run_id="stand",
        root=ROOT,
        runtime="cgroupfs",
        containers=tuple(
            SandboxContainer(claim=one.claim, cgroup=f"{ROOT}/{one.cgroup.path}", pids=(100 + number,))
            for number, one in enumerate(request.containers)
        ),
    )
    claims = claim_set(stage.plan, scenario, made, stage.containers)
    nodes = CpuSet.of(node.id for node in topology.numa if node.mem_bytes) or CpuSet.of([0])
    evidence = _evidence(request, scenario, topology, nodes)
    evidence = _with_word(evidence, work, stage)
    return Stand(claims=claims, evidence=evidence, plan=stage.plan, online=topology.online, nodes=nodes)


def _with_word(evidence: Evidence, work: Planned, stage: Stage) -> Evidence:
    stated = node_evidence(work, stage, "cgroupfs")
    return replace(
        evidence,
        runtime=stated.runtime or Runtime(name="cgroupfs"),
        state_files=stated.state_files,
        layers=stated.layers,
    )


def _evidence(request: SandboxRequest, scenario: Scenario, topology: Topology, nodes: CpuSet) -> Evidence:
    online = topology.online
    wanted = {one.claim: _used_ns(one, request, scenario, online) for one in request.containers}
    used = _fitting(request, _held_by_pods(request, wanted), online)
    files = tuple(
        [_files(CgroupRequest(path=""), online, nodes)]
        + [_files(one, online, nodes) for one in request.parents]
        + [_files(one.cgroup, online, nodes) for one in request.containers]
    )
    return Evidence(
        started_at="2026-11-22T01:00:00+00:00",
        start_monotonic_ns=0,
        duration_ns=WINDOW_NS,
        environment=Environment(
            kernel="6.18.0",
            cgroup="hybrid",
            cmdline="",
            cpus_online=online,
            hz=250,
            bandwidth_slice_us=5000,
            throttle_model="task",
            topology=summary(topology),
        ),
        coverage=coverage(cpus_seen=online, cpus_online=online),
        cpu_use=tuple(row for one in request.containers for row in _cpu_use(one, used[one.claim], online)),
        thread_masks=tuple(_mask(number, one, online, nodes) for number, one in enumerate(request.containers)),
        files_before=files,
        files_after=tuple(replace(one, at_ns=WINDOW_NS) for one in files),
        bandwidth=tuple(row for one in request.containers for row in _bandwidth(one, request, used)),
        canaries=(POSITIVE, CLEAN),
        pages=tuple(_pages(one, nodes) for one in request.containers),
        hugetlb=tuple(
            HugetlbUse(
                claim=one.claim,
                page_bytes=limit.page_bytes,
                limit_bytes=limit.limit_bytes // limit.page_bytes * limit.page_bytes,
                usage_bytes=0,
            )
            for one in request.containers
            for limit in one.cgroup.hugepages
        ),
        devices=tuple(DevicePlace(bdf=one.bdf, present=True, numa_node=one.numa_node) for one in topology.pci),
        irq_use=(),
        steal_by_cpu_ns={},
        standstill_by_cpu_ns={},
    )


def _used_ns(one: ContainerRequest, request: SandboxRequest, scenario: Scenario, online: CpuSet) -> int:
    """CPU time that a load gets: what it asks for, as far as its CPUs and its quota go; its part, if it must share."""
    cpus = one.cgroup.cpus or online
    asked = sum(load.threads for load in scenario.workloads.get(one.claim, ()))
    rate = min(float(asked), float(len(cpus))) or 0.001
    if one.claim in scenario.pile_ups:
        rate = min(rate, 1.0)
    if one.cgroup.quota_us is not None and one.cgroup.quota_us > 0:
        rate = min(rate, one.cgroup.quota_us / one.cgroup.period_us)
    if scenario.weights:
        rivals = [other.cgroup for other in request.containers if other.cgroup.cpus == one.cgroup.cpus]
        rate = len(cpus) * (one.cgroup.shares or 2) / sum(other.shares or 2 for other in rivals)
    return int(rate * WINDOW_NS)


def _held_by_pods(request: SandboxRequest, used: dict[str, int]) -> dict[str, int]:
    """Let several containers have no more together than keeps their pod from being throttled."""
    held = dict(used)
    for pod in request.parents:
        inside = [one.claim for one in request.containers if one.cgroup.path.startswith(f"{pod.path}/")]
        total = sum(used[claim] for claim in inside)
        most = 0.97 * (pod.quota_us or 0) / pod.period_us * WINDOW_NS
        if 0 < most < total and len(inside) > 1:
            for claim in inside:
                held[claim] = int(used[claim] * most / total)
    return held


def _fitting(request: SandboxRequest, used: dict[str, int], online: CpuSet) -> dict[str, int]:
    """Let loads that share CPUs have no more of them than there is."""
    asked: Counter[int] = Counter()
    for one in request.containers:
        cpus = one.cgroup.cpus or online
        asked.update(dict.fromkeys(cpus, used[one.claim] // len(cpus)))
    return {
        one.claim: int(used[one.claim] * min(1.0, *(WINDOW_NS / asked[cpu] for cpu in one.cgroup.cpus or online)))
        if used[one.claim]
        else 0
        for one in request.containers
    }


def _cpu_use(one: ContainerRequest, used_ns: int, online: CpuSet) -> list[CpuUse]:
    cpus = one.cgroup.cpus or online
    each = used_ns // len(cpus)
    samples = each * 99 // 1_000_000_000
    return [CpuUse(claim=one.claim, cpu=cpu, switches=100, run_ns=each, samples=samples) for cpu in cpus]


def _mask(number: int, one: ContainerRequest, online: CpuSet, nodes: CpuSet) -> ThreadMask:
    return ThreadMask(
        claim=one.claim,
        pid=100 + number,
        tid=100 + number,
        comm="work",
        cpus_allowed=one.cgroup.cpus or online,
        mems_allowed=one.cgroup.mems or nodes,
        times_seen=40,
        first_at_ns=0,
        last_at_ns=WINDOW_NS,
        policy="other",
    )


def _files(one: CgroupRequest, online: CpuSet, nodes: CpuSet) -> CgroupFiles:
    return CgroupFiles(
        cgroup=f"{ROOT}/{one.path}".rstrip("/"),
        at_ns=0,
        cpus=one.cpus or online,
        cpus_effective=one.cpus or online,
        mems=one.mems or nodes,
        mems_effective=one.mems or nodes,
        quota_us=-1 if one.quota_us is None else one.quota_us,
        period_us=one.period_us,
        burst_us=0,
        shares=one.shares or 1024,
        memory_max_bytes=-1 if one.memory_max_bytes is None else one.memory_max_bytes // 4096 * 4096,
    )


def _bandwidth(one: ContainerRequest, request: SandboxRequest, used: dict[str, int]) -> list[BandwidthUse]:
    """The container's own level and those above, each with what all containers below it used."""
    parts = one.cgroup.path.split("/")
    paths = ["/".join(parts[:length]) for length in range(len(parts), -1, -1)]
    asked = {other.path: other for other in (*request.parents, *(c.cgroup for c in request.containers))}
    found = []
    for level, path in enumerate(paths):
        limit = asked.get(path, CgroupRequest(path=path))
        below = [other for other in request.containers if f"{other.cgroup.path}/".startswith(f"{path}/".lstrip("/"))]
        usage = sum(used[other.claim] for other in below)
        quota = -1 if limit.quota_us is None else limit.quota_us
        periods = WINDOW_NS // (limit.period_us * 1000) if quota > 0 else 0
        full = quota > 0 and usage >= 0.99 * quota / limit.period_us * WINDOW_NS
        found.append(
            BandwidthUse(
                claim=one.claim,
                cgroup=f"{ROOT}/{path}".rstrip("/"),
                level=level,
                window_ns=WINDOW_NS,
                usage_ns=usage,
                nr_periods=periods,
                nr_throttled=periods if full else 0,
                throttled_ns=periods * 1_000_000 if full else 0,
                quota_us=quota,
                period_us=limit.period_us,
                burst_us=0,
                bpf_usage_ns=usage if level == 0 else None,
            )
        )
    return found


def _pages(one: ContainerRequest, nodes: CpuSet) -> PageReading:
    node = (one.cgroup.mems or nodes).first()
    row = PageUse(
        claim=one.claim, kind=PageKind.ANON, node=node, total_bytes=MIB, pid=100, comm="work", process_bytes=MIB
    )
    return PageReading(claim=one.claim, processes=1, unread=0, pages=(row,))
