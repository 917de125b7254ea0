"""What a kubelet computes and no kernel takes: refused before anything is made. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.errors import InputError
from toolkit.model.cpu_units import MAX_QUOTA_US
from toolkit.model.plan import Plan
from toolkit.session.planning.planned import Planned


def check_bounds(work: Planned, where: str) -> None:
    """Refuse a plan with a CPU quota that the kernel refuses. A limit of memory that is too large is none to it.

    :raises InputError: which container or pod, what it would be given, and the most that there is.
    """
    for plan in work.every_plan:
        for name, quota_us, period_us in _quotas(plan):
            if quota_us > MAX_QUOTA_US:
                found = f"a CPU limit of {quota_us // period_us} CPUs (a quota of {quota_us} us)"
                most = f"at most {MAX_QUOTA_US // period_us}: the kernel takes quotas of up to {MAX_QUOTA_US} us"
                raise InputError(f"{where}: {name}", found, most)


def _quotas(plan: Plan) -> Iterator[tuple[str, int, int]]:
    """Yield name, quota and period of whatever gets a cgroup; a container's before its pod's."""
    for pod in plan.pods:
        if pod.admitted:
            yield from ((f"{pod.name}/{one.name}", one.quota_us, one.period_us) for one in pod.containers)
            yield pod.name, pod.quota_us, pod.period_us
