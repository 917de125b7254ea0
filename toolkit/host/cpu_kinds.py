"""Which processor this is, and which CPUs are of which kind where one machine has several kinds of core.

Hints, not promises: the kernel has no single file for it. Tried in order, the first that finds two kinds or more wins:
the per-type PMUs of hybrid x86, Arm's MIDR register, the scheduler's ``cpu_capacity``.

Source: Documentation/admin-guide/perf/intel-hybrid (``/sys/devices/cpu_core/cpus``), Documentation/arch/arm64/
cpu-feature-registers.rst (``midr_el1``), Documentation/scheduler/sched-capacity.rst.
"""

from __future__ import annotations

import platform
import re

from toolkit.host.sysfs import PROC_BYTES, SysTree
from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import CoreType

_CPU = "sys/devices/system/cpu"
_X86_TYPES = ("core", "atom", "lowpower")
_MODEL_KEYS = ("model name", "cpu model", "cpu", "uarch", "Model Name", "Processor", "machine")


def read_cpuinfo(tree: SysTree) -> tuple[tuple[str, str], ...]:
    """Return the distinct ``key: value`` pairs of /proc/cpuinfo in order of their first appearance."""
    text = tree.read("proc/cpuinfo", PROC_BYTES) or ""
    pairs: dict[tuple[str, str], None] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and len(line) < 8192:
            pairs[key.strip(), value.strip()] = None
    return tuple(pairs)


def cpu_model(cpuinfo: tuple[tuple[str, str], ...]) -> str | None:
    """Return the processor's name where cpuinfo has one."""
    for wanted in _MODEL_KEYS:
        for key, value in cpuinfo:
            if key == wanted and value and not value.isdigit():
                return value
    return None


def architecture(tree: SysTree, cpuinfo: tuple[tuple[str, str], ...]) -> str | None:
    """Return the machine name as ``uname -m`` would; for a dump what its files give away, or ``None``.

    Only s390 has books and ``cpu/dispatching``, so it is known even without cpuinfo.
    """
    if tree.live:
        return platform.machine()
    keys = {key for key, _ in cpuinfo}
    text = dict(reversed(cpuinfo))
    flags = text.get("flags", "").split()
    if "S390" in text.get("vendor_id", "") or tree.exists(f"{_CPU}/dispatching") or _has_books(tree):
        return "s390x"
    if flags:
        return "x86_64" if "lm" in flags else "i686"
    if "CPU implementer" in keys:
        # 32-bit kernels name the processor and its hardware in their own words; 64-bit ones never do.
        return "armv7l" if "Hardware" in keys or "ARMv" in text.get("model name", "") else "aarch64"
    if text.get("isa", "").startswith("rv"):
        return "riscv64" if text["isa"].startswith("rv64") else "riscv32"
    if re.match(r"(PPC|POWER|PowerPC|Cell)", text.get("cpu", "")):
        return "ppc64"
    if "CPU Family" in keys and "Loongson" in text.get("CPU Family", ""):
        return "loongarch64"
    if "Sparc" in text.get("cpu", "") or "sparc" in text.get("type", "").lower() or "sun4" in text.get("type", ""):
        return "sparc64"
    return "ia64" if text.get("arch", "").startswith("IA-64") else None


def _has_books(tree: SysTree) -> bool:
    return any(tree.exists(f"{_CPU}/cpu{cpu}/topology/book_id") for cpu in tree.numbered(_CPU, "cpu")[:1])


def read_core_types(tree: SysTree, online: CpuSet) -> tuple[CoreType, ...]:
    """Return the kinds of core, or nothing on a machine where all are alike."""
    for kinds in (_x86_types(tree, online), _by_file(tree, online, "regs/identification/midr_el1", "midr")):
        if len(kinds) > 1:
            return kinds
    kinds = _by_file(tree, online, "cpu_capacity", "capacity")
    return kinds if len(kinds) > 1 else ()


def _x86_types(tree: SysTree, online: CpuSet) -> tuple[CoreType, ...]:
    found = ((name, tree.cpu_list(f"sys/devices/cpu_{name}/cpus")) for name in _X86_TYPES)
    return tuple(CoreType(name=name, cpus=cpus & online) for name, cpus in found if cpus is not None and cpus & online)


def _by_file(tree: SysTree, online: CpuSet, file: str, label: str) -> tuple[CoreType, ...]:
    kinds: dict[str, int] = {}
    for cpu in online:
        value = tree.read(f"{_CPU}/cpu{cpu}/{file}")
        if value:
            kinds[value] = kinds.get(value, 0) | 1 << cpu
    return tuple(CoreType(name=f"{label} {_short(value)}", cpus=CpuSet(mask)) for value, mask in kinds.items())


def _short(value: str) -> str:
    return f"0x{int(value, 16):x}" if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", value) else value[:20]
