"""Which scenarios fit a machine, and what it lacks for the others: counted as the kubelet counts. Pure.

But for threads of a core, which are counted core by core: the kubelet's number of them is an average.
"""

from __future__ import annotations

from toolkit.allocation.admission import StartupError
from toolkit.allocation.startup import make_managers
from toolkit.errors import InputError
from toolkit.model.isolation import Finding
from toolkit.model.plan import Plan
from toolkit.model.runtimes import CGROUPFS, RUNTIMES
from toolkit.model.scenario import Requirements, Scenario, Tier
from toolkit.model.topology import Topology
from toolkit.session.planning.deciders import homeless as homeless
from toolkit.session.planning.expected import expected
from toolkit.session.planning.plan_findings import RESERVED_OWNED, plan_findings
from toolkit.session.planning.planned import config_of, machine_of, plan_all


def unmet(requires: Requirements, topology: Topology) -> str | None:
    """Return what the machine lacks for a scenario, counted as the kubelet counts; ``None`` if it fits."""
    if topology.kubelet.error is not None:
        return f"the kubelet's hardware discovery fails on this machine: {topology.kubelet.error}"
    machine = machine_of(topology)

    def pages(size: int) -> list[int]:
        return [node.hugepages.get(size, 0) for node in machine.nodes if node.id in machine.numa_masks]

    sockets, caches = machine.socket_masks.values(), machine.uncore_masks.values()
    nodes = machine.numa_masks.values()
    threads = requires.threads_per_core
    with_threads = sum(mask.bit_count() >= threads for mask in machine.core_masks.values())
    cores = "cores" if threads == 1 else f"cores of {threads} threads"
    has = {
        "CPUs": (machine.num_cpus, requires.cpus),
        cores: (with_threads, requires.cores),
        "NUMA nodes with CPUs": (machine.num_numa, requires.numa_nodes),
        "sockets": (machine.num_sockets, requires.sockets),
        "CPUs per NUMA node": (min(map(int.bit_count, nodes), default=0), requires.cpus_per_numa_node),
        "NUMA nodes per socket": (
            min((sum(1 for node in nodes if node & socket) for socket in sockets), default=0),
            requires.numa_nodes_per_socket,
        ),
        "L3 groups per socket": (
            min((sum(1 for cache in caches if not cache & ~socket) for socket in sockets), default=0),
            requires.l3_groups,
        ),
        "huge pages of 2 MiB": (sum(pages(2 << 20)), requires.hugepages_2mib),
        "huge pages of 2 MiB on each NUMA node": (min(pages(2 << 20), default=0), requires.hugepages_2mib_a_node),
        "huge pages of 1 GiB": (sum(pages(1 << 30)), requires.hugepages_1gib),
        "NUMA nodes with memory": (sum(node.memory_bytes > 0 for node in machine.nodes), requires.memory_nodes),
        "MiB of memory": (sum(node.memory_bytes for node in machine.nodes) >> 20, requires.memory_mib),
    }
    lacking = [f"{wanted} {what} (this machine has {found})" for what, (found, wanted) in has.items() if found < wanted]
    if requires.max_numa_nodes is not None and machine.num_numa > requires.max_numa_nodes:
        lacking.append(f"at most {requires.max_numa_nodes} NUMA node with CPUs (this machine has {machine.num_numa})")
    sizes = {mask.bit_count() for mask in machine.numa_masks.values()}
    if requires.even_numa_nodes and len(sizes) > 1:
        lacking.append(f"NUMA nodes of one size (this machine has {' and '.join(map(str, sorted(sizes)))} CPUs)")
    return f"needs {', '.join(lacking)}" if lacking else None


def unstartable(scenario: Scenario, topology: Topology) -> str | None:
    """Return why no kubelet starts with the scenario's options on this machine; ``None`` if one does."""
    config = config_of(scenario)
    try:
        make_managers(config, machine_of(topology))
    except StartupError as error:
        if error.stage not in ("cpu-manager", "topology-manager"):
            raise InputError(f"scenario {scenario.name}", f"{error.stage}: {error.message}") from None
        return f"no kubelet starts here with these options: {error.message}"
    return None


def misplanned(scenario: Scenario, topology: Topology) -> str | None:
    """Return what keeps a scenario from showing anything where cores differ; ``None``: it shows what it is for.

    The kubelet takes all cores for the average one. So it admits what it refuses elsewhere, and breaks guarantees: what
    would be judged is the kubelet's arithmetic, which needs no run.
    """
    machine = machine_of(topology)
    if not machine.irregular:
        return None
    threads = machine.cpus_per_core
    average = f"the kubelet takes each core of this machine for one of {threads} thread{'' if threads == 1 else 's'}"
    try:
        work = plan_all(scenario, topology)
    except InputError as error:
        # Decisions beside the kubelet's (DRA claims) name CPUs, and it chooses others here.
        return f"{average}: {error}"
    for name, admitted, reason, _ in work.admissions:
        wanted = scenario.rejected_pods.get(name)
        # An empty reason is any.
        if admitted is not (wanted is None) or (wanted and reason != wanted):
            decided = "admits" if admitted else f"refuses ({reason})"
            wished = "admitted" if wanted is None else f"refused ({wanted or 'for any reason'})"
            return f"{average}, and {decided} pod {name}, which is to be {wished}"
    for one in expected(scenario, work):
        if one.wrong:
            return f"{average}: {one.wrong}"
    broken = [found for plan in work.every_plan for found in plan_findings(plan, topology) if _judged(found, plan)]
    return f"{average}: {broken[0].id}, {broken[0].path}: {broken[0].breaks}" if broken else None


def _judged(found: Finding, plan: Plan) -> bool:
    """Whether a rule fails because of a finding: reserved CPUs are promised under strict reservation only."""
    return found.id != RESERVED_OWNED or plan.strict_reservation


def unsupported(scenario: Scenario, runtime: str) -> str | None:
    """Return what a runtime cannot do for a scenario; ``None`` if it can do everything."""
    if scenario.restarts and not RUNTIMES[runtime].keeps_cgroup:
        return f"{runtime} makes a new cgroup for each restart, which has no claim: needs --runtime {CGROUPFS}"
    return None


def why_not(scenario: Scenario, topology: Topology, runtime: str = CGROUPFS, *, full: bool = True) -> str | None:
    """Return why a scenario is not run here; ``None`` if it is. :param full: not only the core of the catalogue."""
    lacking = unmet(scenario.requires, topology) or homeless(scenario, topology)
    lacking = lacking or unstartable(scenario, topology) or unsupported(scenario, runtime)
    lacking = lacking or misplanned(scenario, topology)
    if lacking is None and not full and scenario.tier is not Tier.CORE:
        return "not in the core of the catalogue: --full runs it"
    return lacking
