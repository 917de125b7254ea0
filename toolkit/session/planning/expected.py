"""What a scenario expects its containers to get, held against the plan on the machine's topology. Pure.

The expectation is written by hand from the specification (key ``expect``): the plan has no part in it. Cores, caches,
nodes and sockets are the kernel's, not those that the model reckons with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations

from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, PodPlan
from toolkit.model.scenario import ONLINE, Expectation, Scenario
from toolkit.model.topology import Topology
from toolkit.session.planning.kept import Compared
from toolkit.session.planning.planned import Planned
from toolkit.session.planning.resizing import containers
from toolkit.text.wording import count


def expected(scenario: Scenario, work: Planned) -> Iterator[Compared]:
    """Compare what each container gets of which something is expected."""
    plans = {name: pair for plan in work.every_plan for name, pair in containers(plan).items()}
    given = {name: one.cpus for name, (_, one) in plans.items()}
    for name, wanted in scenario.expect.items():
        if name not in given:
            yield Compared(subject=name, found="", wrong=f"{name} has no CPUs: its pod was not admitted")
            continue
        wrong = "; ".join((*_differences(wanted, given[name], given, work), *_values(wanted, *plans[name])))
        has = f"has CPUs {given[name]}"
        yield Compared(subject=name, found=f"{has}, as expected", wrong=wrong and f"{name} {has}: {wrong}")


def _values(wanted: Expectation, pod: PodPlan, one: ContainerPlan) -> Iterator[str]:
    """Yield each value that is not as it is expected, in words."""
    numbers = (
        ("quota", one.quota_us, wanted.quota_us),
        ("quota of the pod", pod.quota_us, wanted.pod_quota_us),
        ("weight", one.shares, wanted.shares),
        ("memory.max", NO_QUOTA if one.memory_limit_bytes is None else one.memory_limit_bytes, wanted.memory_max),
    )
    for what, found, right in numbers:
        if right is not None and found != right:
            yield f"{what} {_number(found)}; expected {_number(right)}"
    if wanted.mems and one.mems != CpuSet.parse(wanted.mems):
        yield f"memory nodes {one.mems or 'any'}; expected {CpuSet.parse(wanted.mems)}"


def _number(value: int | None) -> str:
    return "none" if value == NO_QUOTA else str(value)


def _differences(wanted: Expectation, cpus: CpuSet, given: dict[str, CpuSet], work: Planned) -> Iterator[str]:
    """Yield each part of an expectation that the CPUs do not meet, in words."""
    if wanted.cpus:
        exact = work.online if wanted.cpus == ONLINE else CpuSet.parse(wanted.cpus)
        if cpus != exact:
            yield f"expected {exact}"
    if wanted.count is not None and len(cpus) != wanted.count:
        yield f"expected {count(wanted.count, 'CPU')}"
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
