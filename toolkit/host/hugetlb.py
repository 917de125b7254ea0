"""Huge pages of a cgroup: the hugetlb controller's limit, usage, refusals and usage by NUMA node, v2 and v1 names.

Source: Documentation/admin-guide/cgroup-v2.rst, section HugeTLB; cgroup-v1/hugetlb.rst.
"""

from __future__ import annotations

import re
from pathlib import Path

from toolkit.host.cgroup_mounts import Hierarchy, read_control
from toolkit.host.cgroupfs import NO_LIMIT, relative
from toolkit.model.memory_units import limit_in_force
from toolkit.model.placement import HugetlbUse

_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))
_NODE = re.compile(r"N(\d{1,5})=(\d{1,19})", re.ASCII)


def size_name(page_bytes: int) -> str | None:
    """Return the page size as it stands in file names: ``2MB``, ``1GB``, ``64KB``; ``None``: it is no such size."""
    for unit, name in _UNITS:
        if page_bytes >= unit and page_bytes % unit == 0:
            return f"{page_bytes // unit}{name}"
    return None


def read_hugetlb(hierarchy: Hierarchy, claim: str, cgroup: str, page_bytes: int) -> HugetlbUse:
    """Read the files of one page size; fields are ``None`` where there is no controller or no such size."""
    mount = hierarchy.find_controller("hugetlb")
    size = size_name(page_bytes)
    if mount is None or size is None:
        return HugetlbUse(claim=claim, page_bytes=page_bytes)
    v2 = hierarchy.is_v2("hugetlb")
    stem = mount / relative(cgroup) / f"hugetlb.{size}"
    limit = _number(Path(f"{stem}.max" if v2 else f"{stem}.limit_in_bytes"))
    return HugetlbUse(
        claim=claim,
        page_bytes=page_bytes,
        limit_bytes=None if limit is None else limit_in_force(limit, page_bytes),
        usage_bytes=_number(Path(f"{stem}.current" if v2 else f"{stem}.usage_in_bytes")),
        failures=_refused(Path(f"{stem}.events")) if v2 else _number(Path(f"{stem}.failcnt")),
        node_bytes=_by_node(Path(f"{stem}.numa_stat")),
    )


def _number(path: Path) -> int | None:
    text = (read_control(path) or "").strip()
    if text == "max":
        return NO_LIMIT
    return int(text) if re.fullmatch(r"\d{1,20}", text, re.ASCII) else None


def _refused(path: Path) -> int | None:
    match = re.search(r"^max (\d{1,19})$", read_control(path) or "", re.MULTILINE | re.ASCII)
    return None if match is None else int(match[1])


def _by_node(path: Path) -> dict[int, int] | None:
    """Read ``total=0 N0=0 N1=0``; v1 has two lines, of which the second, of the whole subtree, is wanted."""
    lines = (read_control(path) or "").splitlines()
    # v1 prefixes the line of the whole subtree with "hierarchical_".
    line = next((line for line in lines if line.startswith("hierarchical_total=")), lines[0] if lines else "")
    return {int(node): int(used) for node, used in _NODE.findall(line)} or None
