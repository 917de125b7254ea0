"""What else decides about a container's CPUs: adjusters between create and start, and CPUs claimed through DRA.

An adjuster is what an NRI plugin is to a runtime: it sees each container after the kubelet has decided and before it
starts, and may change its values. A DRA driver for CPUs hands a CPU set over in the container's environment
(``DRA_CPUSET_<claim uid>=<list>``); it is exclusive, so the shared pool shrinks by it.
Source: ``docs/specification.md`` ("Node Resource Interface", its ``clearcfs`` example; "Dynamic resource allocation");
``docs/catalogue.md`` (dra-driver-cpu).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from toolkit.errors import InputError
from toolkit.model.claims import NO_QUOTA, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, Plan, PodPlan, QosClass

DRA_PREFIX = "DRA_CPUSET_"


class Adjuster(Protocol):
    """Changes containers between create and start."""

    @property
    def name(self) -> str:
        """Name in the plan's reasons."""

    def adjust(self, pod: PodPlan, container: ContainerPlan) -> ContainerPlan:
        """Return the container as it shall start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearCfs:
    """The ``clearcfs`` example: containers of some QoS classes run without a CFS quota."""

    qos_classes: frozenset[QosClass] = frozenset({QosClass.GUARANTEED})
    name: str = "clearcfs"

    def adjust(self, pod: PodPlan, container: ContainerPlan) -> ContainerPlan:
        """Take the quota away."""
        if pod.qos_class not in self.qos_classes or container.quota_us == NO_QUOTA:
            return container
        return replace(container, quota_us=NO_QUOTA)


def adjust(plan: Plan, adjusters: Iterable[Adjuster]) -> Plan:
    """Let the adjusters see every container of every admitted pod, in order; what changed is in its reasons."""
    pods = []
    chain = tuple(adjusters)
    for pod in plan.pods:
        containers = []
        for container in pod.containers:
            for adjuster in chain:
                changed = adjuster.adjust(pod, container)
                if changed != container:
                    container = replace(changed, reasons=(*changed.reasons, _changes(adjuster, container, changed)))
            containers.append(container)
        pods.append(replace(pod, containers=tuple(containers)))
    return replace(plan, pods=tuple(pods))


def _changes(adjuster: Adjuster, before: ContainerPlan, after: ContainerPlan) -> str:
    fields = ("cpus", "mems", "quota_us", "period_us", "shares", "isolation", "memory_limit_bytes")
    changed = [
        f"{name} {getattr(before, name)} -> {getattr(after, name)}"
        for name in fields
        if getattr(before, name) != getattr(after, name)
    ]
    return f"adjusted before start by {adjuster.name}: {', '.join(changed) or 'no value of the cgroup'}"


def read_dra_cpus(environment: Iterable[str], where: str) -> dict[str, CpuSet]:
    """Read the CPU sets that a DRA driver has put into a container's environment: claim uid -> CPUs.

    :param environment: ``NAME=value`` texts.
    :raises InputError: a malformed or empty set, a claim twice, or claims that overlap.
    """
    claims: dict[str, CpuSet] = {}
    for entry in environment:
        name, sign, value = entry.partition("=")
        if not name.startswith(DRA_PREFIX):
            continue
        uid = name.removeprefix(DRA_PREFIX)
        if not sign or not uid:
            raise InputError(where, repr(entry)[:80], f"{DRA_PREFIX}<claim uid>=<CPU list>")
        if uid in claims:
            raise InputError(where, f"claim {uid} twice", "every claim once")
        cpus = CpuSet.parse(value, f"{where}: {name}")
        if not cpus:
            raise InputError(f"{where}: {name}", "no CPU", "a CPU list such as 2-3")
        for other, taken in claims.items():
            if not taken.isdisjoint(cpus):
                raise InputError(where, f"claims {other} and {uid} share CPUs {taken & cpus}", "disjoint claims")
        claims[uid] = cpus
    return claims


def with_dra_claims(plan: Plan, environments: Mapping[str, Iterable[str]]) -> Plan:
    """Hand DRA's CPU sets to their containers and take them out of the shared pool.

    :param environments: ``pod/container`` -> its environment.
    :raises InputError: a container that the plan does not have, a claim of two containers, or CPUs that are owned.
    """
    running = {f"{p.name}/{c.name}": (p, c) for p in plan.pods if p.admitted for c in p.containers}
    owners: dict[str, str] = {}
    given: dict[str, CpuSet] = {}
    mask = 0
    for name, environment in environments.items():
        if name not in running:
            raise InputError("DRA claims", f"no container {name!r} in the plan", "one of the plan's containers")
        for uid, cpus in read_dra_cpus(environment, name).items():
            if uid in owners:
                raise InputError("DRA claims", f"claim {uid} of {owners[uid]} and of {name}", "one owner")
            if cpus.mask & mask or not cpus <= plan.default_cpus:
                taken = CpuSet(cpus.mask & mask) | (cpus - plan.default_cpus)
                raise InputError(f"DRA claim {uid}", f"CPUs {taken} are not free", "CPUs of the shared pool")
            owners[uid] = name
            mask |= cpus.mask
            given[name] = given.get(name, CpuSet()) | cpus
    pool = plan.default_cpus - CpuSet(mask)
    pods = []
    for pod in plan.pods:
        containers = [_with_dra(plan, c, given.get(f"{pod.name}/{c.name}"), pool) for c in pod.containers]
        pods.append(replace(pod, containers=tuple(containers)))
    return replace(plan, default_cpus=pool, pods=tuple(pods))


def _with_dra(plan: Plan, container: ContainerPlan, cpus: CpuSet | None, pool: CpuSet) -> ContainerPlan:
    if cpus is not None:
        if container.assigned is not None:
            found = f"CPUs {container.assigned} of the CPU Manager and CPUs {cpus} of DRA"
            raise InputError(f"container {container.name}", found, "one source of exclusive CPUs")
        reason = f"CPUs {cpus}: exclusive, claimed through DRA"
        return replace(container, cpus=cpus, isolation=Isolation.CONTAINER, reasons=(*container.reasons, reason))
    if container.isolation is Isolation.HOST and pool != plan.default_cpus:
        reason = f"CPUs {pool}: the shared pool without the CPUs claimed through DRA"
        return replace(container, cpus=pool, reasons=(*container.reasons, reason))
    return container
