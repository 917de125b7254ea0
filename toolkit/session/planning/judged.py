"""Which promises a scenario judges, in words, wherever it is run: from its claims on a machine that is made up. Pure.

The machine is as large as any scenario needs: what is promised depends on requests and options, and only the numbers
on the machine.
"""

from __future__ import annotations

from dataclasses import fields, replace

from toolkit.model.claims import Claim, Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import Sandbox, SandboxContainer
from toolkit.model.scenario import VALUES, Expectation, Requirements, Scenario
from toolkit.model.topology import Cpu, KubeletCpu, KubeletNode, KubeletView, PciDevice, Topology
from toolkit.session.planning.from_plan import Stage, claim_name, claim_set, running, sandbox_request, stages
from toolkit.session.planning.planned import Planned, plan_all
from toolkit.session.planning.retained import retained

CORES_A_NODE, THREADS, NODES, MEMORY_BYTES = 8, 2, 4, 1 << 38
PAGES_KB = {"2048": 512, "1048576": 4}
"""Huge pages of a node by their size."""
PORT = "0x060400"
"""The class of a PCI port: the devices of which the firmware names the node, where a scenario asks for such."""
EXPECTED, STATED, KEPT = "expected CPUs", "expected values", "CPUs kept"
"""What ``admission`` judges of a plan: CPUs and values that a scenario expects, and CPUs that a change must leave."""
LEVELS = {SubjectKind.POD: "of pods", SubjectKind.QOS: "of QoS classes"}


def judged(scenario: Scenario) -> tuple[str, ...]:
    """Return what is promised in a scenario and judged, each kind of promise once, in alphabetical order.

    :raises InputError: it cannot be planned.
    """
    work = plan_all(scenario, reference(scenario.requires))
    last = fullest(work)
    request = sandbox_request(last.plan, scenario, last.containers)
    places = tuple(
        SandboxContainer(claim=one.claim, cgroup=f"/s/{one.cgroup.path}", pids=()) for one in request.containers
    )
    made = Sandbox(run_id="s", root="/s", runtime="cgroupfs", containers=places)
    claims = claim_set(last.plan, scenario, made, last.containers)
    found = {word for claim in claims.claims for word in _words(claim)}
    node = (
        (claims.strict_reservation, "strict reservation"),
        (claims.transition_limit_ms is not None, "time of a change"),
        (claims.noise_budget_ns_per_s is not None, "noise budget"),
        (scenario.state_files, "state files"),
        (any(_said(one) - set(VALUES) for one in scenario.expect.values()), EXPECTED),
        (any(_said(one) & set(VALUES) for one in scenario.expect.values()), STATED),
        (any(True for _ in retained(scenario, work)), KEPT),
        (bool(scenario.rejected_pods or scenario.rejected_resizes or scenario.refused_restart), "refusal"),
    )
    return tuple(sorted(found | {word for asked, word in node if asked}))


def _said(wanted: Expectation) -> set[str]:
    """Return the names of the parts of which something is expected."""
    return {part.name for part in fields(wanted) if getattr(wanted, part.name) != part.default}


def fullest(work: Planned) -> Stage:
    """Return the last stage with all that is promised in it: after resizes, and with the pods that leave again."""
    last = stages(work.plan, work.before)[-1]
    if work.visited is not None:
        containers = frozenset(claim_name(pod, one) for pod, one in running(work.visited))
        return replace(last, plan=work.visited, containers=containers)
    return replace(last, plan=work.resized or last.plan)


def _words(claim: Claim) -> list[str]:
    """Name what one claim promises."""
    level = LEVELS.get(claim.kind, "")
    quota = "no quota" if claim.quota_us is not None and claim.quota_us < 0 else "quota"
    promised = (
        (claim.cpus is not None, "CPU set"),
        (claim.isolation is not Isolation.HOST, f"CPUs of the {claim.isolation} alone"),
        (claim.mems is not None, "memory nodes"),
        (claim.quota_us is not None, f"{quota} {level}".rstrip()),
        (claim.shares is not None, f"weight {level}".rstrip()),
        (claim.shares is not None and claim.contended, "part of contended CPU time"),
        (claim.memory_bytes is not None, f"memory limit {level}".rstrip()),
        (bool(claim.hugepages), "huge pages"),
        (bool(claim.devices), "devices on its NUMA node"),
        (claim.max_numa_nodes is not None, "fewest NUMA nodes"),
    )
    words = [word for asked, word in promised if asked]
    words += [f"alignment {alignment}" for alignment in claim.alignments]
    return words + [f"preference {preference}" for preference in claim.preferences]


def reference(requires: Requirements) -> Topology:
    """Return a machine that a scenario fits on: nodes with a cache each, cores of two threads, two sockets."""
    nodes = requires.max_numa_nodes or max(NODES, requires.numa_nodes)
    sockets = min(nodes, max(2, requires.sockets))
    here = range(CORES_A_NODE * THREADS)
    places = [(node * len(here) + number, node, number // THREADS) for node in range(nodes) for number in here]
    cpus: dict[int, KubeletCpu] = {}
    for cpu, node, core in places:
        key = node * CORES_A_NODE + core
        cache = node * 2 + core * 2 // CORES_A_NODE
        cpus[cpu] = KubeletCpu(
            core_id=key, core_key=key, socket=node * sockets // nodes, numa=node, uncore_cache_id=cache
        )
    view = KubeletView(
        cpus=cpus,
        logical_cpus=len(cpus),
        nodes=tuple(
            KubeletNode(
                id=node,
                memory=MEMORY_BYTES,
                cpus=CpuSet.of(cpu for cpu, own, _ in places if own == node),
                hugepages_kb=PAGES_KB,
                distances=tuple(10 if node == other else 20 for other in range(nodes)),
                node_l3=(),
            )
            for node in range(nodes)
        ),
    )
    return Topology(
        cpus=tuple(
            Cpu(
                cpu=cpu,
                online=True,
                core=one.core_key,
                core_key=one.core_key,
                socket=one.socket,
                socket_key=one.socket,
                numa=one.numa,
            )
            for cpu, one in cpus.items()
        ),
        kubelet=view,
        pci=tuple(PciDevice(bdf=f"0000:{node:02x}:00.0", pci_class=PORT, numa_node=node) for node in range(nodes))
        if requires.device_nodes
        else (),
    )
