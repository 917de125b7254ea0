"""Memory nodes of a container for which the kubelet asked for none: those of its pod's own cgroup.

A runtime copies them (v1), or the kernel grants them (v2); what else stands there another program wrote.
Source: opencontainers/cgroups ``fs/cpuset.go`` (``cpusetCopyIfNeeded``); Documentation/admin-guide/cgroup-v2.rst
(``cpuset.mems.effective``); docs/facts.md K-kubelet-3.
"""

from __future__ import annotations

from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.json_parts import parsed
from toolkit.sources.kubelet.subjects import Subject

_FILES = ("cpuset.mems.effective", "cpuset.effective_mems", "cpuset.mems")


def nodes_above(subject: Subject, tree: dict[str, dict[str, str]]) -> CpuSet | None:
    """Return them; ``None``: they were not read. :param tree: control files by cgroup, as claims name it."""
    files = tree.get(subject.cgroup.rpartition("/")[0], {})
    return next((parsed(files[name]) for name in _FILES if name in files), None) or None
