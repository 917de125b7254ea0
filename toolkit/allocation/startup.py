"""A kubelet's start, stage by stage: what it refuses and with which message, and the managers that it ends up with.

The order of the stages is the kubelet's (:data:`toolkit.allocation.admission.STAGES`).
Source: ``docs/simulate-format.md`` sections "kubelet" and "expect"; Kubernetes documentation "Reserve Compute
Resources for System Daemons" (Node Allocatable).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Set
from dataclasses import dataclass

from toolkit.allocation.admission import StartupError
from toolkit.allocation.cpu.manager import CpuPolicyError, NonePolicy, StaticPolicy, make_policy
from toolkit.allocation.enforcement import enforcement_problems, enforces_pods
from toolkit.allocation.machine import Machine
from toolkit.allocation.memory.start import Reserved, check_policy
from toolkit.allocation.topology.manager import POLICIES, SCOPES, TopologyManager
from toolkit.errors import InputError
from toolkit.kubernetes import feature_gates as gates
from toolkit.kubernetes.go_text import GoError, parse_cpu_list, quote
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import CPU, HUGEPAGES_PREFIX, MEMORY, PODS, hugepages_resource, is_memory_resource
from toolkit.kubernetes.quantity import ZERO, Family, Quantity
from toolkit.model.cpuset import CpuSet

_RESERVABLE = frozenset({CPU, MEMORY, "ephemeral-storage", "pid"})
_SIGNALS = frozenset(f"{name}.available" for name in ("memory", "allocatableMemory", "pid")) | {
    f"{name}.{what}" for name in ("nodefs", "imagefs", "containerfs") for what in ("available", "inodesFree")
}
"""What a threshold can be of. Source: kubernetes v1.36.2, pkg/kubelet/eviction/helpers.go, ``validSignal``."""
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_BEYOND_SINGLE = 2.0**128 - 2.0**103
"""The least number that rounds to more than the greatest of single precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Managers:
    """What a started kubelet decides with. :param reserved: memory kept back per node."""

    cpu: StaticPolicy | NonePolicy
    topology: TopologyManager
    reserved: Reserved
    reservation: Mapping[str, Quantity]


def make_managers(config: NodeConfig, machine: Machine, *, quirks: bool = False) -> Managers:
    """Go through the stages up to the managers' creation.

    :raises StartupError: stage and message with which the kubelet refuses.
    """
    problem = config.feature_gates.problem()
    if problem is not None:
        raise StartupError("feature-gates", problem)
    _validate(config)
    # A list of reserved CPUs replaces both amounts, so nothing reads those.
    unread = {CPU} if config.reserved_system_cpus else set[str]()
    kube = _parse_reserved(config.kube_reserved, "--kube-reserved", unread)
    system = _parse_reserved(config.system_reserved, "--system-reserved", unread)
    eviction = _parse_eviction(config.eviction_hard, _capacity(machine)[MEMORY])
    listed = _reserved_cpus(config, machine)
    if listed:
        system[CPU] = Quantity.of(len(listed))
    reservation = {}
    for name in _capacity(machine):
        amount = ZERO + system.get(name, ZERO) + kube.get(name, ZERO)
        if name == MEMORY:
            amount += eviction
        if amount:
            reservation[name] = amount
    topology = TopologyManager(
        config.topology_manager_policy,
        config.topology_manager_scope,
        config.topology_manager_policy_options,
        machine,
        gates=config.feature_gates,
        quirks=quirks,
    )
    try:
        cpu = make_policy(
            config.cpu_manager_policy,
            config.cpu_manager_policy_options,
            machine,
            reserved_milli=reservation.get(CPU, ZERO).milli,
            reserved_list=listed or None,
            topology_policy=config.topology_manager_policy,
            alpha_options=config.feature_gates[gates.CPU_ALPHA_OPTIONS],
            beta_options=config.feature_gates[gates.CPU_BETA_OPTIONS],
            pod_level_managers=config.feature_gates.pod_level_managers,
            quirks=quirks,
            series=config.series,
        )
    except CpuPolicyError as error:
        raise StartupError("cpu-manager", str(error)) from None
    reserved = check_policy(config.memory_manager_policy, machine, reservation, config.reserved_memory)
    return Managers(cpu=cpu, topology=topology, reserved=reserved, reservation=reservation)


def check_node_allocatable(machine: Machine, reservation: Mapping[str, Quantity]) -> None:
    """Check, as the last stage, that no more is reserved than there is.

    :raises StartupError: naming every resource that does not suffice.
    """
    capacity = _capacity(machine)
    problems = [
        f"Resource {quote(name)} has a reservation of {amount} but capacity of {capacity[name]}. "
        "Expected capacity >= reservation."
        for name, amount in sorted(reservation.items())
        if amount.nano > capacity[name].nano
    ]
    if problems:
        raise StartupError("node-allocatable", f"invalid Node Allocatable configuration. {' '.join(problems)}")


def refused_start(error: StartupError, machine: Machine) -> InputError:
    """Return what a user is told of a kubelet that does not start; a machine without memory was saved without it."""
    if error.stage == "node-allocatable" and not _capacity(machine)[MEMORY]:
        kept = "no memory is known of it, and the kubelet keeps some back (evictionHard, kubeReserved, systemReserved)"
        return InputError("the machine", kept, "sys/devices/system/node/node*/meminfo in its dump")
    return InputError("kubelet configuration", error.sentence())


def node_allocatable(config: NodeConfig, machine: Machine, reservation: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return what the node has for pods, as its status says: its capacity less what is reserved, and how many pods.

    Huge pages are memory that nothing gets as such: all of them are taken off it, reserved or not. A machine that was
    recorded without its memory has none here: how much it is nothing knows.
    """
    capacity = _capacity(machine)
    huge = sum(amount.nano for name, amount in capacity.items() if name.startswith(HUGEPAGES_PREFIX))
    left = {name: max(0, amount.nano - reservation.get(name, ZERO).nano) for name, amount in capacity.items()}
    left[MEMORY] = max(0, left[MEMORY] - huge)
    found = {n: Quantity(nano, capacity[n].family) for n, nano in left.items() if n != MEMORY or capacity[n]}
    by_cores = [config.pods_per_core * machine.num_cpus] if config.pods_per_core else []
    return {PODS: Quantity.of(min([config.max_pods, *by_cores])), **found}


def memory_of_all_pods(config: NodeConfig, capacity_bytes: int) -> int:
    """Return the limit of memory of the cgroup of all pods; where nothing is enforced for pods it is the capacity.

    Neither the threshold of eviction nor huge pages are taken off.
    Source: ``pkg/kubelet/cm/node_container_manager_linux.go`` (``enforceNodeAllocatableCgroups``,
    ``getNodeAllocatableInternalAbsolute``).

    :raises InputError: a reserved amount is none; such a kubelet does not start.
    """
    reserved = (config.system_reserved, config.kube_reserved) if enforces_pods(config) else ()
    kept = sum(Quantity.parse(amounts[MEMORY]).value for amounts in reserved if MEMORY in amounts)
    return max(0, capacity_bytes - kept)


def _capacity(machine: Machine) -> dict[str, Quantity]:
    """Return what the machine has: CPUs, memory, and huge pages of each size that a node knows, be it without any."""
    amounts = {MEMORY: sum(node.memory_bytes for node in machine.nodes)}
    for node in machine.nodes:
        for page_bytes, pages in node.hugepages.items():
            name = hugepages_resource(page_bytes)
            amounts[name] = amounts.get(name, 0) + page_bytes * pages
    in_bytes = {name: Quantity.of(amount, Family.BINARY_SI) for name, amount in amounts.items()}
    return {CPU: Quantity.of(machine.num_cpus), **in_bytes}


def _validate(config: NodeConfig) -> None:
    """Check what the kubelet's validation of its configuration says about the resource managers' fields."""
    found = []
    if not 1000 <= config.cpu_cfs_quota_period_us <= 1_000_000:
        value = f"{config.cpu_cfs_quota_period_us}us"
        found.append(f"cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {value} must be between 1ms and 1sec, inclusive")
    if config.cpu_cfs_quota_period_us != NodeConfig().cpu_cfs_quota_period_us:
        gate = gates.CFS_QUOTA_PERIOD
        if not config.feature_gates[gate]:
            value = f"{config.cpu_cfs_quota_period_us / 1000:g}ms"
            found.append(f"cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {value} requires feature gate {gate}")
    for name, flag, number in (
        ("maxPods", "--max-pods", config.max_pods),
        ("podsPerCore", "--pods-per-core", config.pods_per_core),
    ):
        if number < 0:
            found.append(f"{name} ({flag}) {number} must not be a negative number")
    if config.topology_manager_policy not in POLICIES:
        valid = " ".join(map(quote, POLICIES))
        name = quote(config.topology_manager_policy)
        found.append(f"topologyManagerPolicy (--topology-manager-policy) {name} must be one of: [{valid}]")
    if config.topology_manager_scope not in SCOPES:
        name, valid = quote(config.topology_manager_scope), ", or ".join(map(quote, SCOPES))
        found.append(f"topologyManagerScope (--topology-manager-scope) {name} must be one of: {valid}")
    found += enforcement_problems(config)
    if config.reserved_system_cpus:
        if config.system_reserved_cgroup or config.kube_reserved_cgroup:
            found.append(
                "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) "
                "or kubeReservedCgroup (--kube-reserved-cgroup)"
            )
        try:
            parse_cpu_list(config.reserved_system_cpus)
        except GoError as error:
            text = config.reserved_system_cpus
            found.append(f"unable to parse reservedSystemCPUs (--reserved-cpus) {text}, error: {error}")
    found += _reserved_memory_problems(config)
    texts = list(dict.fromkeys(f"invalid configuration: {text}" for text in found))
    if texts:
        raise StartupError("config-validation", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _reserved_memory_problems(config: NodeConfig) -> list[str]:
    found = []
    seen: set[tuple[int, str]] = set()
    for entry in config.reserved_memory:
        node = entry.numa_node
        for name, amount in sorted(entry.limits.items()):
            if not is_memory_resource(name):
                accepted = f"only [{MEMORY} {HUGEPAGES_PREFIX}<HugePageSize>] is accepted"
                found.append(f"the limit type {quote(name)} for NUMA node {node} is not supported, {accepted}")
            if not amount:
                found.append(f"reserved memory may not be zero for NUMA node {node} and resource {quote(name)}")
            if (node, name) in seen:
                place = f"for NUMA node {node} and resource {quote(name)}"
                found.append(f"the reserved memory has a duplicate value {place}")
            seen.add((node, name))
    return found


def _parse_reserved(given: Mapping[str, str], flag: str, unread: Set[str]) -> dict[str, Quantity]:
    found = {}
    for name, text in sorted(given.items()):
        if name in unread:
            continue
        # A page size that the machine lacks is no resource of it: what is reserved of it has no effect.
        if name not in _RESERVABLE and not name.startswith(HUGEPAGES_PREFIX):
            raise StartupError("config-parse", f"{flag} value failed to parse: cannot reserve {quote(name)} resource")
        try:
            amount = Quantity.parse(text)
        except InputError as error:
            cause = str(error).split("; expected ", 1)[-1]
            detail = f"failed to parse quantity {quote(text)} for {quote(name)} resource: {cause}"
            raise StartupError("config-parse", f"{flag} value failed to parse: {detail}") from None
        if amount.nano < 0:
            detail = f"resource quantity for {quote(name)} cannot be negative: {text}"
            raise StartupError("config-parse", f"{flag} value failed to parse: {detail}")
        found[name] = amount
    return found


def _parse_eviction(given: Mapping[str, str], memory: Quantity) -> Quantity:
    """Return the memory that the hard eviction thresholds keep free; the other signals must be right, too."""
    found = ZERO
    for signal, text in sorted(given.items()):
        if signal not in _SIGNALS:
            raise StartupError("config-parse", f"unsupported eviction signal {signal}")
        amount = _threshold(signal, text, memory)
        found = amount if signal == "memory.available" else found
    return found


def _threshold(signal: str, text: str, memory: Quantity) -> Quantity:
    """Return an absolute threshold, or a share of the memory (of anything else nothing asks for the amount)."""
    if text in ("0%", "100%"):
        # With these two there is no threshold.
        return ZERO
    if text.endswith("%"):
        return Quantity.of(int(memory.value * _share(signal, text)), Family.BINARY_SI)
    try:
        amount = Quantity.parse(text)
    except InputError as error:
        raise StartupError("config-parse", str(error).split("; expected ", 1)[-1]) from None
    if amount.nano <= 0:
        raise StartupError("config-parse", f"eviction threshold {signal} must be positive: {amount}")
    return amount


def _share(signal: str, text: str) -> float:
    """Read a percentage as the kubelet does, in single precision: ``5%`` is 0.05."""
    number = text.rstrip("%")
    if not _FLOAT.fullmatch(number):
        raise StartupError("config-parse", f"strconv.ParseFloat: parsing {quote(number)}: invalid syntax")
    if abs(float(number)) >= _BEYOND_SINGLE:
        raise StartupError("config-parse", f"strconv.ParseFloat: parsing {quote(number)}: value out of range")
    single = struct.Struct("f")
    parsed = single.unpack(single.pack(float(number)))[0]
    share = float(single.unpack(single.pack(parsed / 100))[0])
    if share < 0 or share > 1:
        bound = ">= 0%" if share < 0 else "<= 100%"
        raise StartupError("config-parse", f"eviction percentage threshold {signal} must be {bound}: {text}")
    return share


def _reserved_cpus(config: NodeConfig, machine: Machine) -> CpuSet:
    if not config.reserved_system_cpus:
        return CpuSet()
    listed = parse_cpu_list(config.reserved_system_cpus)
    if not listed <= machine.cpus:
        text = f"reserved-cpus: {config.reserved_system_cpus} is not a subset of online-cpus: {machine.cpus}"
        raise StartupError("reserved-cpus", text)
    return listed
