"""Limits of huge pages: what of a request a cgroup can be promised, what not, and why.

A container has a limit of its own where its runtime was told one: containerd tells runc none by default
(``disable_hugetlb_controller``), CRI-O none without the controller. The pod's cgroup has what the kubelet writes, where
the controller is. Source: kubernetes ``pkg/kubelet/cm/helpers_linux.go`` (``ResourceConfigForPod``),
``cgroup_manager_linux.go``; containerd ``internal/cri/opts/spec_linux_opts.go`` (``WithResources``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from toolkit.allocation.planner import hugepage_limits
from toolkit.host.hugetlb import size_name
from toolkit.kubernetes.pod import HUGEPAGES_PREFIX, Container, Pod, effective_requests
from toolkit.kubernetes.quantity import Quantity
from toolkit.model.claims import Claim, HugepageLimit
from toolkit.model.evidence.following import LIMITS
from toolkit.model.node_reading import MissingPart, NodeReading
from toolkit.sources.kubelet.subjects import Subject, merged_tree
from toolkit.text.names import to_path
from toolkit.text.wording import count

Has = Callable[[str, int], bool]
"""Whether a cgroup (its path) has a limit of huge pages of this size (bytes)."""
_SHOWN = 3


def files_of(page_bytes: int) -> tuple[str, ...]:
    """Return how a limit's control file is called, on v2 and on v1; nothing: no kernel has such pages."""
    size = size_name(page_bytes)
    return () if size is None else (f"hugetlb.{size}.max", f"hugetlb.{size}.limit_in_bytes")


def of_container(subject: Subject, container: Container) -> tuple[HugepageLimit, ...]:
    """Return the limits of a request which the container's runtime was told."""
    told = (subject.runtime.huge_sizes if subject.runtime else None) or ()
    return tuple(limit for limit in hugepage_limits(container) if size_name(limit.page_bytes) in told)


def of_pod(pod: Pod) -> tuple[HugepageLimit, ...]:
    """Return the limits of a pod's cgroup: of what its containers request together."""
    return tuple(
        HugepageLimit(page_bytes=Quantity.parse(name.removeprefix(HUGEPAGES_PREFIX)).value, limit_bytes=amount.value)
        for name, amount in sorted(effective_requests(pod).items())
        if name.startswith(HUGEPAGES_PREFIX) and amount
    )


def untold(subject: Subject, container: Container) -> bool:
    """Whether a container requests huge pages of which its runtime limits it none."""
    return len(of_container(subject, container)) < len(hugepage_limits(container))


def left_to_pods(names: Iterable[str]) -> tuple[MissingPart, ...]:
    """Name the containers of which that is so."""
    found = sorted(names)
    if not found:
        return ()
    reason = f"huge pages of {_shown(found, 'container')}: their runtime was told no limit, their pods' cgroups have it"
    return (MissingPart(part=LIMITS, reason=reason),)


def in_tree(reading: NodeReading) -> Has:
    """Say it by the control files that were read."""
    tree = merged_tree(reading)
    return lambda cgroup, page_bytes: any(name in tree.get(cgroup, {}) for name in files_of(page_bytes))


def enforced(claims: Iterable[Claim], has: Has) -> tuple[tuple[Claim, ...], tuple[MissingPart, ...]]:
    """Return claims without limits for which a cgroup has no control file: nothing carries them out. And what is not
    promised by that.
    """
    kept, without = [], []
    for claim in claims:
        limits = tuple(one for one in claim.hugepages if has(to_path(claim.cgroup), one.page_bytes))
        if limits != claim.hugepages:
            without.append(claim.name)
        kept.append(claim if limits == claim.hugepages else replace(claim, hugepages=limits))
    if not without:
        return tuple(kept), ()
    reason = f"huge pages of {_shown(without, 'cgroup')}: no control file of such a limit was found"
    return tuple(kept), (MissingPart(part=LIMITS, reason=reason),)


def _shown(names: list[str], what: str) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{count(len(names), what)} ({', '.join(names[:_SHOWN])}{more})"
