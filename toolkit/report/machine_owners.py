"""The owner of each CPU under a plan: the legend that the pictures of a machine share. Pure."""

from __future__ import annotations

import string
from dataclasses import dataclass

from toolkit.model.claims import Isolation
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
    taken = CpuSet()
    result = []
    for index, (name, cpus) in enumerate(found):
        result.append(Owner(symbol=SYMBOLS[index % len(SYMBOLS)], name=name, cpus=(cpus & online) - taken))
        taken |= cpus
    both = (plan.reserved_cpus & plan.default_cpus) - taken
    rest = (
        Owner(symbol=SHARED, name="shared pool", cpus=(plan.default_cpus & online) - plan.reserved_cpus - taken),
        Owner(symbol=RESERVED_SHARED, name="reserved, in the shared pool", cpus=both & online),
        Owner(symbol=RESERVED, name="reserved", cpus=(plan.reserved_cpus & online) - plan.default_cpus - taken),
        Owner(symbol=NO_OWNER, name="no owner", cpus=online - plan.default_cpus - plan.reserved_cpus - taken),
    )
    return tuple(owner for owner in (*result, *rest) if owner.cpus)
