"""Control files that hold no promise by themselves, but decide what one that does is worth: what their texts say.

An idle cgroup has no weight, an isolated partition is not balanced, ``memory.high`` slows down what is within its
limit. Older kernels, and kernels without the option (``CONFIG_UCLAMP_TASK_GROUP``), do not have all of them; of v1 only
the cpu controller has any. Texts in, values out: a live host and a capture are read alike.

Source: Documentation/admin-guide/cgroup-v2.rst ("CPU Interface Files", "Memory Interface Files", "Cpuset Interface
Files"); kernel/sched/core.c (``cpu_legacy_files``).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.model.memory_units import NO_LIMIT, limit_in_force
from toolkit.text.names import printable

Side = dict[str, CpuSet | str | float | bool | int | None]
"""By the names of :data:`toolkit.model.evidence.cgroups.SIDE`."""
Texts = Callable[[str], str | None]
"""The text of a cgroup's file by its name; ``None``: there is none, or it cannot be read."""
CPU = ("cpu.idle", "cpu.uclamp.min", "cpu.uclamp.max")
CPUSET = ("cpuset.cpus.partition", "cpuset.cpus.exclusive", "cpuset.cpus.exclusive.effective")
MEMORY = ("memory.high", "memory.min", "memory.low", "memory.swap.max")
_LONGEST = 200
"""Of a text that is kept as it is: a partition that is invalid says why."""
_PERCENT = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,2})?")
_BYTES = re.compile(r"[0-9]{1,20}")


def of_all(texts: Texts) -> Side:
    """Return what all of them say, where one place has the files of each controller."""
    return of_cpu(texts) | of_cpuset(texts) | of_memory(texts)


def of_cpu(texts: Texts) -> Side:
    """Return what the files of the cpu controller say, in both hierarchies."""
    idle = (texts("cpu.idle") or "").strip()
    return {
        "idle": idle == "1" if idle in ("0", "1") else None,
        "uclamp_min_percent": _percent(texts("cpu.uclamp.min")),
        "uclamp_max_percent": _percent(texts("cpu.uclamp.max")),
    }


def of_cpuset(texts: Texts) -> Side:
    """Return what the files of a v2 cpuset say. A text that is no list of CPUs is none."""
    return {
        "partition": printable((texts("cpuset.cpus.partition") or "").strip()[:_LONGEST]) or None,
        "exclusive": _set(texts("cpuset.cpus.exclusive")),
        "exclusive_effective": _set(texts("cpuset.cpus.exclusive.effective")),
    }


def of_memory(texts: Texts) -> Side:
    """Return what the files of the v2 memory controller say."""
    return {
        "memory_high_bytes": _limit(texts("memory.high")),
        "memory_min_bytes": _limit(texts("memory.min")),
        "memory_low_bytes": _limit(texts("memory.low")),
        "swap_max_bytes": _limit(texts("memory.swap.max")),
    }


def _percent(text: str | None) -> float | None:
    word = (text or "").strip()
    if word == "max":
        return 100.0
    return float(word) if _PERCENT.fullmatch(word) else None


def _limit(text: str | None) -> int | None:
    word = (text or "").strip()
    if word == "max":
        return NO_LIMIT
    return limit_in_force(int(word)) if _BYTES.fullmatch(word) else None


def _set(text: str | None) -> CpuSet | None:
    try:
        return None if text is None else CpuSet.parse(text)
    except InputError:
        return None
