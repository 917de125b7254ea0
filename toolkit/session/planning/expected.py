"""What a scenario expects its containers to get, held against the plan on the machine's topology. Pure.

The expectation is written by hand from the specification (key ``expect``): the plan has no part in it. Cores, caches,
nodes and sockets are the kernel's, not those that the model reckons with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations

from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import MEMORY
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpu_units import MAX_SHARES
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, PodPlan
from toolkit.model.scenario import AMOUNTS, ANY, OF_CPUS, ONE, ONLINE, Expectation, Scenario
from toolkit.model.topology import Topology
from toolkit.session.planning.machine_amounts import amount, amounts_of
from toolkit.session.planning.planned import Planned, config_of, machine_of
from toolkit.session.planning.resizing import containers
from toolkit.session.planning.retained import Compared
from toolkit.text.wording import count


def expected(scenario: Scenario, work: Planned) -> Iterator[Compared]:
    """Compare what each container gets of which something is expected.

    :raises InputError: an amount of the machine that is none, or less than nothing.
    """
    plans = {name: pair for plan in work.every_plan for name, pair in containers(plan).items()}
    given = {name: one.cpus for name, (_, one) in plans.items()}
    config = config_of(scenario)
    amounts = _amounts(scenario, work, config)
    kept = sum(amount.value for entry in config.reserved_memory if (amount := entry.limits.get(MEMORY)))
    anywhere = "" if config.memory_manager_policy == "Static" else ANY
    for name, wanted in scenario.expect.items():
        if name not in given:
            yield Compared(subject=name, found="", wrong=f"{name} has no CPUs: its pod was not admitted")
            continue
        pod, one = plans[name]
        differences = [
            *_differences(wanted, one.cpus, given, work),
            *_values(wanted, pod, one, amounts, f"scenario {scenario.name}: expect.{name}"),
            *(_memory(mems, pod, one, work.topology, kept) if (mems := wanted.mems or anywhere) else ()),
        ]
        has = f"has CPUs {one.cpus}"
        wrong = f"{name} {has}: {'; '.join(differences)}" if differences else ""
        yield Compared(subject=name, found=f"{has}, as expected", wrong=wrong)


def _amounts(scenario: Scenario, work: Planned, config: NodeConfig) -> dict[str, int]:
    """Return what the names of amounts are on the machine, where something is expected by such."""
    parts = (getattr(one, part) for one in scenario.expect.values() for part in AMOUNTS)
    depends = any(isinstance(part, str) for part in parts)
    return amounts_of(config, machine_of(work.topology)) if depends else {}


def _values(wanted: Expectation, pod: PodPlan, one: ContainerPlan, names: dict[str, int], where: str) -> Iterator[str]:
    """Yield each value that is not as it is expected, in words."""
    numbers = (
        ("quota", one.quota_us, wanted.quota_us),
        ("quota of the pod", pod.quota_us, wanted.pod_quota_us),
        ("weight", one.shares, wanted.shares),
        ("memory.max", NO_QUOTA if one.memory_limit_bytes is None else one.memory_limit_bytes, wanted.memory_max),
        ("number of CPUs", len(one.cpus), wanted.count),
    )
    for what, found, stated in numbers:
        right = amount(stated, names, where) if isinstance(stated, str) else stated
        if what == "weight" and right is not None:
            right = min(right, MAX_SHARES)
        if right is not None and found != right:
            yield f"{what} {_number(found)}; expected {_number(right)}"


def _memory(wanted: str, pod: PodPlan, one: ContainerPlan, topology: Topology, kept: int) -> Iterator[str]:
    """Yield where its memory may be, if that is not as it is expected. :param kept: bytes that no pod may have."""
    nodes = one.mems or CpuSet()
    if wanted == ONE:
        fits, right = len(nodes) == 1 and nodes <= _online_nodes(topology), wanted
    elif wanted == OF_CPUS:
        own = _nodes_of(one.cpus, topology)
        room = sum(node.mem_bytes or 0 for node in topology.numa if node.id in own) - kept
        # The policies that prefer take more nodes where those of the CPUs have too little memory.
        fits, right = nodes == own or (own < nodes and room < (pod.memory_limit_bytes or 0)), str(own)
    else:
        exact = CpuSet() if wanted == ANY else CpuSet.parse(wanted)
        fits, right = nodes == exact, str(exact or ANY)
    if not fits:
        yield f"memory nodes {nodes or ANY}; expected {right}"


def _online_nodes(topology: Topology) -> CpuSet:
    return CpuSet.of(node.id for node in topology.numa) or CpuSet.of([0])


def _nodes_of(cpus: CpuSet, topology: Topology) -> CpuSet:
    """Return the NUMA nodes of CPUs; node 0 where the kernel knows of none, as the kubelet has it."""
    return CpuSet.of(node for node, own in topology.numa_cpus.items() if own & cpus) or CpuSet.of([0])


def _number(value: int | None) -> str:
    return "none" if value == NO_QUOTA else str(value)


def _differences(wanted: Expectation, cpus: CpuSet, given: dict[str, CpuSet], work: Planned) -> Iterator[str]:
    """Yield each part of an expectation that the CPUs do not meet, in words."""
    if wanted.cpus:
        exact = work.online if wanted.cpus == ONLINE else CpuSet.parse(wanted.cpus)
        if cpus != exact:
            yield f"expected {exact}"
    if wanted.same_as and given.get(wanted.same_as) != cpus:
        yield f"has CPUs {cpus}; expected those of {wanted.same_as}: {given.get(wanted.same_as) or 'none'}"
    for number, groups, what in _counts(wanted, work.topology):
        found = sum(1 for group in groups if group & cpus)
        if not cpus <= CpuSet.union(groups):
            yield f"the {what} of some is not known; expected {count(number, what)}"
        elif found != number:
            yield f"on {count(found, what)}; expected {number}"
    if wanted.nearest_numa_nodes and _apart(cpus, work.topology):
        yield "on NUMA nodes that are not nearest to each other; expected those that are"
    if wanted.whole_numa_nodes is not None:
        nodes = [own - work.plan.reserved_cpus for own in work.topology.numa_cpus.values()]
        found = sum(1 for own in nodes if own and own <= cpus)
        if found != wanted.whole_numa_nodes:
            yield f"it has {count(found, 'NUMA node')} wholly; expected {wanted.whole_numa_nodes}"


def _apart(cpus: CpuSet, topology: Topology) -> bool:
    """Whether two of the NUMA nodes are farther from each other than any two of the machine must be."""
    if topology.distances is None:
        return True
    ids, rows = topology.distances.ids, topology.distances.matrix
    between = {(one, other): rows[i][j] for i, one in enumerate(ids) for j, other in enumerate(ids) if i != j}
    nodes = [node for node, own in topology.numa_cpus.items() if own & cpus]
    return any(between.get(pair, 0) > min(between.values()) for pair in permutations(nodes, 2))


def _counts(wanted: Expectation, topology: Topology) -> Iterator[tuple[int, tuple[CpuSet, ...], str]]:
    """Yield each expected number with the groups that are counted, and their name."""
    kinds: tuple[tuple[int | None, Iterable[CpuSet], str], ...] = (
        (wanted.cores, topology.cores.values(), "core"),
        (wanted.uncore_caches, topology.l3_groups.values(), "level 3 cache"),
        (wanted.numa_nodes, topology.numa_cpus.values(), "NUMA node"),
        (wanted.sockets, topology.sockets.values(), "socket"),
    )
    for number, groups, what in kinds:
        if number is not None:
            yield number, tuple(groups), what
