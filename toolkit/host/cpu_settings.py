"""Where interrupts may go, and how each CPU idles and scales: lines ``PATH: VALUE`` of a machine, and what they say.

Read as text first, so that a capture and a live machine are read alike.
Source: Documentation/core-api/irq/irq-affinity.rst; Documentation/admin-guide/pm/cpuidle.rst, cpufreq.rst.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from toolkit.errors import InputError
from toolkit.host.sysfs import SysTree
from toolkit.model.cpu_tuning import CpuSettings, IrqAffinity
from toolkit.model.cpuset import CpuSet
from toolkit.text.names import printable

_MAY, _GOES = "smp_affinity_list", "effective_affinity_list"
_LATENCY, _GOVERNOR = "power/pm_qos_resume_latency_us", "cpufreq/scaling_governor"
_LINE = re.compile(
    r"^/(?:proc/irq/(?P<irq>\d{1,6})/(?P<mask>smp_affinity_list|effective_affinity_list)"
    r"|sys/devices/system/cpu/cpu(?P<cpu>\d{1,5})/(?P<file>power/pm_qos_resume_latency_us|cpufreq/scaling_governor)"
    r"|(?P<default>proc/irq/default_smp_affinity)): ?(?P<value>.{0,4096})$",
    re.MULTILINE | re.ASCII,
)
MAX_INTERRUPTS = 16384


def settings_lines(proc: SysTree, sys: SysTree) -> str:
    """Return the lines. :param proc, sys: trees whose ``/`` are the machine's proc and sys."""
    found = []
    paths = [f"irq/{irq}/{name}" for irq in proc.numbered("irq", "")[:MAX_INTERRUPTS] for name in (_MAY, _GOES)]
    for path in ("irq/default_smp_affinity", *paths):
        value = proc.read(path)
        if value is not None:
            found.append(f"/proc/{path}: {printable(value)}\n")
    for cpu in sys.numbered("devices/system/cpu", "cpu"):
        for name in (_LATENCY, _GOVERNOR):
            path = f"devices/system/cpu/cpu{cpu}/{name}"
            value = sys.read(path)
            if value is not None:
                found.append(f"/sys/{path}: {printable(value)}\n")
    return "".join(found)


def settings_of(lines: str) -> CpuSettings:
    """Return what such lines say; a value that is no list of CPUs says nothing."""
    default: CpuSet | None = None
    masks: dict[int, dict[str, CpuSet]] = {}
    texts: dict[str, dict[int, str]] = {_LATENCY: {}, _GOVERNOR: {}}
    for match in _LINE.finditer(lines):
        value = match["value"].strip()
        if match["cpu"]:
            texts[match["file"]][int(match["cpu"])] = value[:64]
        elif match["default"]:
            default = _set(CpuSet.parse_mask, value)
        else:
            found = _set(CpuSet.parse, value)
            if found is not None:
                masks.setdefault(int(match["irq"]), {})[match["mask"]] = found
    interrupts = tuple(
        IrqAffinity(irq=irq, may=said[_MAY], goes=said.get(_GOES)) for irq, said in masks.items() if said.get(_MAY)
    )
    return CpuSettings(
        interrupts=interrupts if masks else None,
        default_interrupts=default,
        resume_latency_us=texts[_LATENCY],
        governors=texts[_GOVERNOR],
    )


def _set(read: Callable[[str], CpuSet], value: str) -> CpuSet | None:
    try:
        return read(value)
    except InputError:
        return None
