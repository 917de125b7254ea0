"""The owner of each CPU, under a plan or by claims: the legend that the pictures of a machine share. Pure."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.model.claims import ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerRole, Plan

SYMBOLS = string.ascii_uppercase + string.digits
SHARED, RESERVED, RESERVED_SHARED, NO_OWNER = ".", "#", "+", "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One owner of CPUs: its one-character symbol, its name, its CPUs."""

    symbol: str
    name: str
    cpus: CpuSet


def owners(plan: Plan, online: CpuSet) -> tuple[Owner, ...]:
    """Return disjoint owners that cover every online CPU: exclusive containers, pods' own pools, shared, reserved."""
    found: list[tuple[str, CpuSet]] = []
    for pod in plan.pods:
        if not pod.admitted:
            continue
        own = CpuSet()
        # Init containers last: what a later container uses again is drawn as its own.
        for container in sorted(pod.containers, key=lambda container: container.role is ContainerRole.INIT):
            if container.isolation is Isolation.CONTAINER and not container.cpus <= own:
                found.append((f"{pod.name}/{container.name}", container.cpus - own))
                own |= container.cpus
        pool = (pod.cpus or CpuSet()) - own
        if pool:
            found.append((f"{pod.name} (pod shared pool)", pool))
    return _disjoint(found, plan.default_cpus, plan.reserved_cpus, online)


def owners_by_claims(claims: ClaimSet, online: CpuSet) -> tuple[Owner, ...]:
    """Return disjoint owners that cover every online CPU, by what was promised.

    Where no claim of the shared pool has a set of CPUs, what no claim owns is the shared pool's.
    """
    found: list[tuple[str, CpuSet]] = []
    pools: dict[str, CpuSet] = {}
    shared = CpuSet()
    for claim in claims.claims:
        if claim.cpus is None:
            continue
        if claim.isolation is Isolation.CONTAINER:
            found.append((claim.name, claim.cpus))
        elif claim.isolation is Isolation.POD:
            pools[claim.pod] = pools.get(claim.pod, CpuSet()) | claim.cpus
        else:
            shared |= claim.cpus
    found += [(f"{pod} (pod shared pool)", cpus) for pod, cpus in pools.items()]
    owned = CpuSet.union(cpus for _, cpus in found)
    return _disjoint(found, (shared or online - claims.reserved_cpus) - owned, claims.reserved_cpus, online)


def _disjoint(
    found: Sequence[tuple[str, CpuSet]], shared: CpuSet, reserved: CpuSet, online: CpuSet
) -> tuple[Owner, ...]:
    """Give every CPU one owner: the first that has it. :param found: name and CPUs of those that own some."""
    taken = CpuSet()
    result = []
    for index, (name, cpus) in enumerate(found):
        result.append(Owner(symbol=SYMBOLS[index % len(SYMBOLS)], name=name, cpus=(cpus & online) - taken))
        taken |= cpus
    both = (reserved & shared) - taken
    rest = (
        Owner(symbol=SHARED, name="shared pool", cpus=(shared & online) - reserved - taken),
        Owner(symbol=RESERVED_SHARED, name="reserved, in the shared pool", cpus=both & online),
        Owner(symbol=RESERVED, name="reserved", cpus=(reserved & online) - shared - taken),
        Owner(symbol=NO_OWNER, name="no owner", cpus=online - shared - reserved - taken),
    )
    return tuple(owner for owner in (*result, *rest) if owner.cpus)
