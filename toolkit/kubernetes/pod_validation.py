"""Pods whose resources the API server refuses: they never reach a node.

Source: kubernetes v1.36 ``pkg/apis/core/validation`` (``validateResourceRequirements``,
``validatePodResourceConsistency``); KEP-2837 (pod-level budgets).
"""

from __future__ import annotations

from toolkit.errors import InputError
from toolkit.kubernetes.pod import CPU, HUGEPAGES_PREFIX, MEMORY, Pod, Resources, aggregate, is_pod_level_resource
from toolkit.kubernetes.quantity import Quantity


def refuse_what_the_api_refuses(pod: Pod, defaulted: Pod, where: str) -> None:
    """Refuse a pod for its resources. :param pod: as it was written. :param defaulted: with the API's defaults.

    :raises InputError: one line with the place, what was found and what was expected.
    """
    if pod.resources is not None:
        for name in (*pod.resources.requests, *pod.resources.limits):
            if not is_pod_level_resource(name):
                raise InputError(f"{where}: spec.resources", name, "cpu, memory or hugepages-<size>")
    for container in pod.containers:
        place = f"{where}: container {container.name}"
        _check(container.resources, place)
        _check_alone(container.resources, place)
    if pod.resources is not None:
        _check(pod.resources, f"{where}: spec.resources")
    if defaulted.resources is None:
        return
    _check_alone(defaulted.resources, f"{where}: spec.resources")
    _check_budget(defaulted, defaulted.resources, where)


def _check(resources: Resources, place: str) -> None:
    """Check requests and limits against each other, and each amount."""
    for name, limit in resources.limits.items():
        request = resources.requests.get(name, limit)
        if request.nano > limit.nano:
            raise InputError(place, f"{name} request {request} above its limit {limit}", "at most the limit")
        if request.nano != limit.nano and _never_overcommitted(name):
            raise InputError(place, f"{name} request {request}, limit {limit}", "equal ones: it is never overcommitted")
    for name in resources.requests:
        if name not in resources.limits and _never_overcommitted(name):
            raise InputError(place, f"{name} request without a limit", "both: it is never overcommitted")
    for name, amount in (*resources.requests.items(), *resources.limits.items()):
        if name.startswith(HUGEPAGES_PREFIX):
            _check_pages(name, amount, place)
        elif "/" in name and amount.milli % 1000:
            raise InputError(place, f"{name} {amount}", "a whole number")


def _never_overcommitted(name: str) -> bool:
    return name.startswith(HUGEPAGES_PREFIX) or "/" in name


def _check_pages(name: str, amount: Quantity, place: str) -> None:
    text = name.removeprefix(HUGEPAGES_PREFIX)
    try:
        size = Quantity.parse(text).as_int64 or 0
    except InputError:
        size = 0
    if size <= 0:
        raise InputError(place, f"{name}: no page size {text[:40]!r}", "a resource such as hugepages-2Mi")
    if amount.value % size:
        raise InputError(place, f"{name} {amount}", f"a multiple of {text}")


def _check_alone(resources: Resources, place: str) -> None:
    """Huge pages are given only to what asks for CPU or memory, too."""
    names = {*resources.requests, *resources.limits}
    huge = sorted(name for name in names if name.startswith(HUGEPAGES_PREFIX))
    if huge and not names & {CPU, MEMORY}:
        raise InputError(place, f"{huge[0]} without cpu and memory", "cpu or memory beside huge pages")


def _check_budget(pod: Pod, budget: Resources, where: str) -> None:
    place = f"{where}: spec.resources"
    for name, amount in aggregate(pod).items():
        if name in budget.requests and amount.nano > budget.requests[name].nano:
            found = f"containers request {amount} {name}, the pod {budget.requests[name]}"
            raise InputError(place, found, "a budget that covers the containers")
    # The API looks at the limits of init containers and sidecars nowhere.
    for container in pod.app_containers:
        for name, limit in container.resources.limits.items():
            if name in budget.limits and limit.nano > budget.limits[name].nano:
                found = f"{name} limit {limit} above the pod's {budget.limits[name]}"
                raise InputError(f"{where}: container {container.name}", found, "at most the pod's limit")
