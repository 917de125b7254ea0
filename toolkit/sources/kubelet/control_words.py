"""What control files of a followed container say beside its CPUs, read where it matters.

Source: Documentation/admin-guide/cgroup-v2.rst (``cgroup.procs``, ``cpu.max``); docs/facts.md K-quota.
"""

from __future__ import annotations

from pathlib import Path

from toolkit.host.cgroup_paths import directories
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpu_units import systemd_quota
from toolkit.model.memory_units import MAX_BYTES, NO_LIMIT, limit_in_force, whole_pages
from toolkit.model.node_reading import UNIFIED, Asked
from toolkit.sources.kubelet import live_files
from toolkit.sources.kubelet.huge_pages import files_of
from toolkit.sources.kubelet.json_parts import number

PERIOD_US = 100_000
_DEPTH = 8
"""An init system in a container makes cgroups of its own."""


class ControlWords:
    """:param root: where the cgroup hierarchies are; they are mounted when this begins."""

    def __init__(self, root: Path) -> None:
        tops = dict(live_files.hierarchies(root))
        self._members = [str(tops[name]) for name in ("cpuset", UNIFIED, "") if name in tops]
        self._memory = [str(tops[name]) for name in ("memory", UNIFIED, "") if name in tops]
        self._huge = [str(tops[name]) for name in ("hugetlb", UNIFIED, "") if name in tops]
        self._quotas = [str(tops[name]) for name in ("cpu", "cpu,cpuacct", UNIFIED, "") if name in tops]

    def has_tasks(self, cgroup: str) -> bool:
        """Whether any process is in a cgroup or below it. ``False``, too: it cannot be read, as one that is gone."""
        return any(_has_tasks(f"{top}{cgroup}", _DEPTH) for top in self._members)

    def limits_huge_pages(self, cgroup: str, page_bytes: int) -> bool:
        """Whether a cgroup has a limit of huge pages of this size."""
        return any(Path(f"{top}{cgroup}/{name}").is_file() for top in self._huge for name in files_of(page_bytes))

    def as_asked(self, cgroup: str, asked: Asked) -> bool:
        """Whether what a resize changes is in force as the runtime was asked for, as far as both are known."""
        return self.quota_as_asked(cgroup, asked) and self._memory_as_asked(cgroup, asked.memory_bytes)

    def _memory_as_asked(self, cgroup: str, wanted: int | None) -> bool:
        """The kernel rounds a limit down to whole pages."""
        found = next((said for top in self._memory if (said := _memory(f"{top}{cgroup}")) is not None), None)
        return found is None or found in whole_pages(wanted if wanted and wanted > 0 else NO_LIMIT)

    def quota_as_asked(self, cgroup: str, asked: Asked) -> bool:
        """Whether the quota in force is what the runtime was asked for, as far as both are known.

        systemd's driver rounds up to a hundredth of a CPU.
        """
        wanted = asked.quota_us
        found = next((said for top in self._quotas if (said := _quota(f"{top}{cgroup}")) is not None), None)
        if wanted is None or found is None:
            return True
        quota_us, period_us = found
        if wanted <= 0 or quota_us == NO_QUOTA:
            return wanted <= 0 and quota_us == NO_QUOTA
        asked_period_us = asked.period_us or PERIOD_US
        return quota_us in (wanted, systemd_quota(wanted, asked_period_us)) and period_us == asked_period_us


def _has_tasks(folder: str, depth: int) -> bool:
    found = directories(folder, depth)
    return any((live_files.small_file(f"{path}/cgroup.procs") or b"").strip() for path, _ in found)


def _memory(folder: str) -> int | None:
    """Return the limit of memory in bytes, :data:`NO_LIMIT` where there is none; ``None``: no file."""
    for name in ("memory.max", "memory.limit_in_bytes"):
        words = (live_files.small_file(f"{folder}/{name}") or b"").decode("ascii", "replace").strip()
        if words:
            limit = MAX_BYTES if words == "max" else number(words)
            return None if limit is None else limit_in_force(limit)
    return None


def _quota(folder: str) -> tuple[int, int] | None:
    """Return quota and period in microseconds; ``None``: there is no such file."""
    words = (live_files.small_file(f"{folder}/cpu.max") or b"").decode("ascii", "replace").split()
    if len(words) != 2:
        read = (live_files.small_file(f"{folder}/cpu.cfs_{what}_us") for what in ("quota", "period"))
        words = [(data or b"").decode("ascii", "replace").strip() for data in read]
    quota_us, period_us = NO_QUOTA if words[0] == "max" else number(words[0]), number(words[1])
    if quota_us is None or period_us is None:
        return None
    return (NO_QUOTA if quota_us < 0 else quota_us), period_us
