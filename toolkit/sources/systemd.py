"""Claims of systemd's units: what services, scopes and slices were configured with, as ``systemctl show`` prints it.

A slice's claim covers all units in it. What a unit leaves unset was not promised.
Source: systemd.resource-control(5), systemctl(1) ("show"); systemd v252 src/core/cgroup.c
(``cgroup_apply_unified_cpu_quota``, ``cgroup_cpu_adjust_period``), src/basic/time-util.c (``format_timespan``).
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from toolkit.errors import InputError
from toolkit.model.claims import Claim
from toolkit.model.cpu_units import MAX_WEIGHT
from toolkit.model.names import from_text
from toolkit.sources.gathered import Gathering, amount, hierarchy_of
from toolkit.sources.kubelet.live_files import bytes_of
from toolkit.sources.kubelet.places import Places
from toolkit.sources.live_source import SourceReading
from toolkit.sources.programs import output_of

PROPERTIES = (
    *("Id", "ActiveState", "ControlGroup", "AllowedCPUs", "AllowedMemoryNodes"),
    *("CPUQuotaPerSecUSec", "CPUQuotaPeriodUSec", "CPUWeight", "MemoryMax", "Delegate"),
)
COMMAND = ("systemctl", "show", "--all", f"--property={','.join(PROPERTIES)}", "*.service", "*.scope", "*.slice")
EXPECTED = "what `systemctl show` prints about units"
RUNNING = frozenset(("active", "reloading", "activating", "deactivating"))
MAX_UNITS = 20_000
PERIOD_US, MIN_US, MAX_PERIOD_US, US_PER_S = 100_000, 1000, 1_000_000, 1_000_000
_UNITS_US = {
    "us": 1,
    "ms": 1000,
    "s": US_PER_S,
    "min": 60 * US_PER_S,
    "h": 3600 * US_PER_S,
    "d": 86_400 * US_PER_S,
    "w": 7 * 86_400 * US_PER_S,
    "month": 2_629_800 * US_PER_S,
    "y": 31_557_600 * US_PER_S,
}
_SPAN = re.compile(r"(\d{1,12})(?:\.(\d{1,6}))?(us|ms|s|min|h|d|w|month|y)", re.ASCII)
_NUMBER = re.compile(r"\d{1,20}", re.ASCII)
_QUOTA = ("CPUQuotaPerSecUSec", "CPUQuotaPeriodUSec")
DELEGATED = (
    "CPUQuota: a delegated scope's maker writes the quota itself, and gives systemd a rounded one: it is not judged"
)
"""runc, also under docker and podman, asks systemd for whole percents of a CPU and then writes the microseconds that it
was asked for; ``daemon-reload`` writes the rounded ones. Both are right, and systemd knows one of them.
Source: opencontainers/runc 1.1.5 libcontainer/cgroups/systemd/common.go (``addCpuQuota``), v2.go (``Set``)."""
_UNSET = ("", "[not set]", "infinity", "18446744073709551615")


def read(where: Path | None, places: Places) -> SourceReading:
    """Return the claims of the units that run and were promised something.

    :param where: a file with what :data:`COMMAND` printed; ``None``: systemd is asked.
    :raises InputError: it cannot be read, or shows no units.
    """
    data = output_of(COMMAND) if where is None else bytes_of(where, f"a file with {EXPECTED}")
    gathering = Gathering()
    for unit in units(data, "systemctl show" if where is None else str(where)):
        _add(unit, gathering)
    hierarchy = hierarchy_of(places.root)
    if hierarchy is not None and not hierarchy.is_v2("cpuset"):
        reason = "this machine has the cpuset controller on cgroup v1, where systemd writes neither of them"
        gathering.missing("AllowedCPUs, AllowedMemoryNodes", reason)
    return gathering.reading()


def units(data: bytes, where: str) -> tuple[dict[str, str], ...]:
    """Read blocks of ``Key=value`` lines with an empty line between two units.

    :raises InputError: no such block, a line without a key, or a unit that is cut off.
    """
    text = data.decode("utf-8", "surrogateescape")
    found = []
    for number, block in enumerate(part for part in text.split("\n\n") if part.strip()):
        fields = {}
        for line in block.strip("\n").split("\n"):
            key, equals, value = line.partition("=")
            if not equals or not key.isidentifier():
                raise InputError(where, f"line '{from_text(line[:60])}'", EXPECTED)
            fields[key] = value
        if number >= MAX_UNITS:
            raise InputError(where, f"more than {MAX_UNITS} units", "fewer")
        lacks = [key for key in ("Id", "ActiveState", "ControlGroup") if key not in fields]
        if lacks:
            raise InputError(where, f"a unit without {lacks[0]}", f"{EXPECTED}, with {', '.join(PROPERTIES)}")
        found.append(fields)
    if not found:
        raise InputError(where, "nothing", EXPECTED)
    return tuple(found)


def _add(unit: dict[str, str], gathering: Gathering) -> None:
    name, cgroup = unit["Id"], unit["ControlGroup"]
    if unit["ActiveState"] not in RUNNING or not cgroup.strip("/"):
        return
    per_second, period = (_span(unit.get(key, ""), name, key, gathering) for key in _QUOTA)
    quota, period_us = quota_in_force(per_second, period)
    if quota is not None and name.endswith(".scope") and unit.get("Delegate") == "yes":
        gathering.missing(name, DELEGATED)
        quota, period_us = None, PERIOD_US
    claim = Claim(
        name=name,
        cgroup=from_text(cgroup),
        container=name,
        cpus=gathering.cpus(unit.get("AllowedCPUs", ""), name, "AllowedCPUs"),
        mems=gathering.cpus(unit.get("AllowedMemoryNodes", ""), name, "AllowedMemoryNodes"),
        quota_us=quota,
        period_us=period_us,
        weight=_weight(unit.get("CPUWeight", ""), name, gathering),
        memory_bytes=amount(_number(unit.get("MemoryMax", ""), name, "MemoryMax", gathering)),
        contended=False,
    )
    if any(value is not None for value in (claim.cpus, claim.mems, quota, claim.weight, claim.memory_bytes)):
        gathering.add(claim, f"{name}@{cgroup}")


def quota_in_force(per_second_us: int | None, period_us: int | None) -> tuple[int | None, int]:
    """Return quota and period that systemd writes for ``CPUQuota=`` and ``CPUQuotaPeriodSec=``; microseconds.

    systemd makes the period longer where the quota in it were below the kernel's millisecond.
    """
    if not per_second_us:
        return None, PERIOD_US
    period = min(max(period_us or PERIOD_US, MIN_US, MIN_US * US_PER_S // per_second_us), MAX_PERIOD_US)
    return max(per_second_us * period // US_PER_S, MIN_US), period


def _span(text: str, name: str, key: str, gathering: Gathering) -> int | None:
    """Read a time span (``1s 500ms``) in microseconds; ``None``: unset, or nonsense, which is said."""
    if text.strip() in _UNSET:
        return None
    total = Fraction(0)
    for word in text.split():
        found = _SPAN.fullmatch(word)
        if found is None:
            gathering.missing(name, f"{key}: {text[:40]!r} is no time span: it is not judged")
            return None
        total += Fraction(f"{found[1]}.{found[2] or 0}") * _UNITS_US[found[3]]
    return int(total)


def _number(text: str, name: str, key: str, gathering: Gathering) -> int | None:
    if text.strip() in _UNSET:
        return None
    if not _NUMBER.fullmatch(text.strip()):
        gathering.missing(name, f"{key}: {text[:40]!r} is no number: it is not judged")
        return None
    return int(text)


def _weight(text: str, name: str, gathering: Gathering) -> int | None:
    weight = _number(text, name, "CPUWeight", gathering)
    if weight == 0:
        gathering.missing(name, "CPUWeight=idle: no weight of the kernel's scale: it is not judged")
    return weight if weight is not None and 1 <= weight <= MAX_WEIGHT else None
