"""What control files of a followed container say beside its CPUs, read where it matters.

Source: Documentation/admin-guide/cgroup-v2.rst (``cgroup.procs``, ``cpu.max``); docs/facts.md K-quota.
"""

from __future__ import annotations

from functools import lru_cache

from toolkit import presence
from toolkit.host.cgroup_paths import directories
from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpu_units import systemd_quota
from toolkit.model.memory_units import MAX_BYTES, NO_LIMIT, limit_in_force, whole_pages
from toolkit.model.node_reading import UNIFIED, V1, Asked
from toolkit.sources.kubelet import live_files
from toolkit.sources.kubelet.huge_pages import files_of
from toolkit.sources.kubelet.json_parts import number

PERIOD_US = 100_000
_QUOTAS = ("cpu", "cpu,cpuacct", UNIFIED, "")
_CFS = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
_QUOTA_FILES = (("cpu.max",), _CFS), (_CFS,)
_MEMORY = ("memory.max", "memory.limit_in_bytes"), ("memory.limit_in_bytes",)
"""Files of a limit in the order in which they are looked for: on v2, or where nothing says which it is; on v1."""
_DEPTH = 8
"""An init system in a container makes cgroups of its own."""


class ControlWords:
    """:param hierarchies: of cgroups. :param kept: reads files."""

    def __init__(self, hierarchies: live_files.Tops, kept: KeptFiles = NONE_KEPT) -> None:
        self._kept = kept
        tops = dict(hierarchies)
        self._members = [str(tops[name]) for name in ("cpuset", UNIFIED, "") if name in tops]
        # A controller is in one hierarchy: what is not there is nowhere.
        memory = ((str(tops[name]), _MEMORY[name in V1]) for name in ("memory", UNIFIED, "") if name in tops)
        self._memory = next(memory, None)
        self._huge = [str(tops[name]) for name in ("hugetlb", UNIFIED, "") if name in tops]
        quotas = ((str(tops[name]), _QUOTA_FILES[name in V1]) for name in _QUOTAS if name in tops)
        self._quotas = next(quotas, None)

    def has_tasks(self, cgroup: str) -> bool:
        """Whether any process is in a cgroup or below it. ``False``, too: it cannot be read, as one that is gone."""
        return any(_has_tasks(f"{top}{cgroup}", _DEPTH) for top in self._members)

    def limits_huge_pages(self, cgroup: str, page_bytes: int) -> bool:
        """Whether a cgroup has a limit of huge pages of this size."""
        return any(presence.is_file(f"{top}{cgroup}/{name}") for top in self._huge for name in files_of(page_bytes))

    def as_asked(self, cgroup: str, asked: Asked) -> bool:
        """Whether what a resize changes is in force as the runtime was asked for, as far as both are known."""
        return self.quota_as_asked(cgroup, asked) and self._memory_as_asked(cgroup, asked.memory_bytes)

    def _memory_as_asked(self, cgroup: str, wanted: int | None) -> bool:
        top, names = self._memory or ("", ())
        for name in names:
            words = self._read(f"{top}{cgroup}", name)[0]
            if words and not words.isspace():
                return _is_limit(words, wanted)
        return True

    def quota_as_asked(self, cgroup: str, asked: Asked) -> bool:
        """Whether the quota in force is what the runtime was asked for, as far as both are known."""
        if asked.quota_us is None:
            return True
        top, files = self._quotas or ("", ())
        for names in files:
            said = _is_quota(tuple(self._read(f"{top}{cgroup}", *names)), asked.quota_us, asked.period_us)
            if said is not None:
                return said
        return True

    def _read(self, folder: str, *names: str) -> list[bytes | None]:
        return self._kept.read(folder, names, None, live_files.small_file)


def _has_tasks(folder: str, depth: int) -> bool:
    found = directories(folder, depth)
    return any((live_files.small_file(f"{path}/cgroup.procs") or b"").strip() for path, _ in found)


@lru_cache(4096)
def _is_limit(words: bytes, wanted: int | None) -> bool:
    """Whether a limit's text is that of a wanted one; the kernel rounds it down to whole pages. Hundreds of containers
    have few of them, and the same at each reading: so below.
    """
    limit = MAX_BYTES if words.strip() == b"max" else number(words.strip().decode("ascii", "replace"))
    found = None if limit is None else limit_in_force(limit)
    return found is None or found in whole_pages(wanted if wanted and wanted > 0 else NO_LIMIT)


@lru_cache(4096)
def _is_quota(texts: tuple[bytes | None, ...], wanted_us: int, wanted_period_us: int | None) -> bool | None:
    """Whether texts of a quota and its period are those of wanted ones; ``None``: they are no such texts.

    systemd's driver rounds up to a hundredth of a CPU.
    """
    words = b" ".join(data or b"" for data in texts).split()
    if len(words) != 2:
        return None
    quota, period_us = (number(word.decode("ascii", "replace")) for word in words)
    quota_us = NO_QUOTA if words[0] == b"max" else quota
    if quota_us is None or period_us is None:
        return True
    if wanted_us <= 0 or quota_us < 0:
        return wanted_us <= 0 and quota_us < 0
    asked_period_us = wanted_period_us or PERIOD_US
    return quota_us in (wanted_us, systemd_quota(wanted_us, asked_period_us)) and period_us == asked_period_us
