"""Claims of systemd's units: what services, scopes and slices were configured with, as ``systemctl show`` prints it.

A slice's claim covers all units in it. What a unit leaves unset was not promised, nor what a slice above takes away.
``CPUAffinity=`` binds threads by their masks: a claim that no control file can show.
Source: systemd.resource-control(5), systemctl(1) ("show"); systemd v252 src/core/cgroup.c
(``cgroup_apply_unified_cpu_quota``, ``cgroup_cpu_adjust_period``), src/basic/time-util.c (``format_timespan``);
systemd.exec(5) ("CPUAffinity=", "NUMAPolicy="); Documentation/admin-guide/cgroup-v2.rst ("cpuset.cpus.effective").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from toolkit.errors import InputError
from toolkit.model.claims import Claim
from toolkit.model.cpu_units import MAX_WEIGHT
from toolkit.model.cpuset import CpuSet
from toolkit.regular_file import bytes_of
from toolkit.sources.gathered import Gathering, amount, hierarchy_of
from toolkit.sources.live_source import SourceReading
from toolkit.sources.places import Places
from toolkit.sources.programs import output_of
from toolkit.text.names import from_text

PROPERTIES = (
    *("Id", "ActiveState", "ControlGroup", "AllowedCPUs", "AllowedMemoryNodes"),
    *("CPUQuotaPerSecUSec", "CPUQuotaPeriodUSec", "CPUWeight", "MemoryMax", "Delegate"),
    *("EffectiveCPUs", "EffectiveMemoryNodes", "CPUAffinity", "NUMAPolicy", "NUMAMask"),
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
_CPUS, _MEMS, _AFFINITY = "AllowedCPUs", "AllowedMemoryNodes", "CPUAffinity"
_EFFECTIVE = {_CPUS: "EffectiveCPUs", _MEMS: "EffectiveMemoryNodes"}
_POLICIES = frozenset(("bind", "preferred", "interleave", "local"))
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
    found = units(data, "systemctl show" if where is None else str(where))
    by_cgroup = {unit["ControlGroup"].rstrip("/"): unit for unit in found if unit["Id"].endswith(".slice")}
    for unit in found:
        _add(unit, by_cgroup, gathering)
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


def _add(unit: dict[str, str], slices: Mapping[str, dict[str, str]], gathering: Gathering) -> None:
    """Claim what a unit was promised. :param slices: by cgroup, without a slash at its end."""
    name, cgroup = unit["Id"], unit["ControlGroup"]
    if unit["ActiveState"] not in RUNNING or not cgroup.strip("/"):
        return
    per_second, period = (_span(unit.get(key, ""), name, key, gathering) for key in _QUOTA)
    quota, period_us = quota_in_force(per_second, period)
    if quota is not None and name.endswith(".scope") and unit.get("Delegate") == "yes":
        gathering.missing(name, DELEGATED)
        quota, period_us = None, PERIOD_US
    asked_cpus, asked_mems = (gathering.cpus(unit.get(key, ""), name, key) for key in (_CPUS, _MEMS))
    cpus, mems = (_left(unit, key, slices, gathering) for key in (_CPUS, _MEMS))
    mask = None if asked_cpus is not None else _by_mask(unit, slices, gathering)
    _beside(unit, gathering)
    claim = Claim(
        name=name,
        cgroup=from_text(cgroup),
        container=name,
        cpus=cpus if mask is None else mask,
        by_mask=mask is not None,
        requested_cpus=asked_cpus if cpus is not None and asked_cpus != cpus else None,
        mems=mems,
        requested_mems=asked_mems if mems is not None and asked_mems != mems else None,
        quota_us=quota,
        period_us=period_us,
        weight=_weight(unit.get("CPUWeight", ""), name, gathering),
        memory_bytes=amount(_number(unit.get("MemoryMax", ""), name, "MemoryMax", gathering)),
        contended=False,
    )
    if any(value is not None for value in (claim.cpus, claim.mems, quota, claim.weight, claim.memory_bytes)):
        gathering.add(claim, f"{name}@{cgroup}")
    else:
        gathering.promises_nothing(claim.cgroup)


def _left(unit: dict[str, str], key: str, slices: Mapping[str, dict[str, str]], gathering: Gathering) -> CpuSet | None:
    """Return what a unit was given of ``AllowedCPUs`` or ``AllowedMemoryNodes`` and its slices do not take away.

    What slices were configured with says it, and ``Effective...``, which the kernel answers. That one is no promise:
    the unit's own file must still hold what was configured, and one that has nothing of it is not taken for lent.
    """
    asked = _set(unit, key)
    if asked is None:
        return None
    name, effective = unit["Id"], _set(unit, _EFFECTIVE[key])
    above = _above(unit, key, slices)
    configured = asked if above is None else asked & above
    if not configured:
        why = f"its slice has none of them, so the kernel gives it all that the slice has ({above})"
        gathering.missing(name, f"{key}={asked}: {why}: not judged")
        return None
    left = configured if effective is None else configured & effective or configured
    if left != asked:
        has = f"its slices have {above}" if left == configured else f"{_EFFECTIVE[key]} is {effective}"
        gathering.missing(name, f"{key}={asked}: {has}: what is taken away above is not promised, {left} is")
    return left


def _above(unit: dict[str, str], key: str, slices: Mapping[str, dict[str, str]]) -> CpuSet | None:
    """Return what the slices above leave to a unit; ``None``: all, as far as it is listed.

    A slice that was given nothing of its own promises nothing: what it has is what the kernel answers.
    """
    parts = unit["ControlGroup"].rstrip("/").split("/")
    paths = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    left: CpuSet | None = None
    for one in (slices[path] for path in paths if path in slices):
        own = _set(one, key)
        has = own if own is not None else _set(one, _EFFECTIVE[key])
        if has is not None:
            # One that has none of what is left gets all of it.
            left = has if left is None else left & has or left
    return left


def _set(unit: dict[str, str], key: str) -> CpuSet | None:
    """Read a list; ``None``: unset, or nonsense, which is said where it is a unit's own."""
    try:
        return CpuSet.parse(",".join(unit.get(key, "").replace(",", " ").split())) or None
    except InputError:
        return None


def _by_mask(unit: dict[str, str], slices: Mapping[str, dict[str, str]], gathering: Gathering) -> CpuSet | None:
    """Return the CPUs to which the threads of a unit are bound by their masks; a mask lies within the cpuset."""
    name = unit["Id"]
    wanted = gathering.cpus(unit.get(_AFFINITY, ""), name, _AFFINITY)
    if wanted is None:
        return None
    above = _above(unit, _CPUS, slices)
    left = wanted if above is None else wanted & above
    how = f"{_AFFINITY}={wanted} binds its threads by mask, not by cpuset"
    if not left:
        gathering.missing(name, f"{how}: its slice has none of them: not judged")
        return None
    gathering.missing(name, f"{how}: affinity-mask and cpuset-containment alone judge it")
    return left


def _beside(unit: dict[str, str], gathering: Gathering) -> None:
    """Name what binds the threads of a unit beside the cgroup, and is not judged."""
    name, policy = unit["Id"], unit.get("NUMAPolicy", "")
    affinity = _set(unit, _AFFINITY)
    if affinity is not None and _set(unit, _CPUS) is not None:
        why = "binds its threads by mask within AllowedCPUs: within which CPUs of these they stay is not judged"
        gathering.missing(name, f"{_AFFINITY}={affinity} {why}")
    if policy in _POLICIES:
        mask = unit.get("NUMAMask", "").strip()
        what = f"NUMAPolicy={policy}" + (f" NUMAMask={from_text(mask[:40])}" if mask else "")
        why = "a memory policy of its threads, not a cpuset"
        gathering.missing(name, f"{what}: {why}: on which nodes its memory lies is not judged")


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
