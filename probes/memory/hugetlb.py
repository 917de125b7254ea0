"""Huge pages of the claims that were promised some, read when the window has closed.

Source: Documentation/admin-guide/cgroup-v2.rst, section HugeTLB.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.host.cgroupfs import Hierarchy
from toolkit.host.hugetlb import read_hugetlb
from toolkit.model.claims import Claim
from toolkit.model.placement import HugetlbUse


def sample_hugetlb(hierarchy: Hierarchy, claims: Iterable[Claim]) -> tuple[HugetlbUse, ...]:
    """Read one row for each claim and each page size that it was promised."""
    return tuple(
        read_hugetlb(hierarchy, claim.name, claim.cgroup, limit.page_bytes)
        for claim in claims
        for limit in claim.hugepages
    )
