"""A CPU goes offline under its owner.

Source: Documentation/core-api/cpu_hotplug.rst; ``docs/facts.md`` K12-K20.
"""

from __future__ import annotations

import os
from pathlib import Path

from toolkit import presence
from toolkit.apply.change import ChangeKind, HostChange
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.faults.fault import Alternatives, Fault, Masks, Scope
from toolkit.faults.injection import Host, Injection, one_cpu
from toolkit.faults.interrupts import affinity, numbers
from toolkit.host.cgroup_mounts import read_control
from toolkit.model.cpuset import CpuSet
from toolkit.text import names


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Write 0 to the switch of the one CPU in ``cpus``; what the kernel changes with it is written down first."""
    cpu = one_cpu(injection)
    path = host.root / f"sys/devices/system/cpu/cpu{cpu}/online"
    state = (read_control(path) or "").strip()
    if not presence.exists(path):
        raise HostUnsupportedError(f"CPU {cpu} cannot be taken offline: {path} does not exist (the boot CPU has none)")
    if state != "1":
        raise InputError("--cpus", f"CPU {cpu} is offline already", "a CPU that is online")
    if len(host.online()) < 2:
        raise HostUnsupportedError(f"CPU {cpu} is the only one online")
    return (
        (
            *_interrupts_of(host, cpu),
            *_legacy_cpusets_of(host, cpu),
            HostChange(kind=ChangeKind.CONTROL, path=names.from_path(path), before="1", after="0"),
        ),
    )


def _interrupts_of(host: Host, cpu: int) -> list[HostChange]:
    found = []
    for irq in numbers(host.root):
        path, text = affinity(host.root, irq)
        if text and cpu in CpuSet.parse(text, path):
            found.append(HostChange(kind=ChangeKind.CONSEQUENCE, path=path, before=text))
    return found


def _legacy_cpusets_of(host: Host, cpu: int) -> list[HostChange]:
    """v1 takes the CPU out of ``cpuset.cpus`` itself and never puts it back. Children first: undone parents first."""
    if host.hierarchy.is_v2("cpuset"):
        return []
    top = host.hierarchy.controller_dir("cpuset")
    found = []
    for directory, _, _ in os.walk(top, topdown=False):
        path = Path(directory) / "cpuset.cpus"
        text = (read_control(path) or "").strip()
        if Path(directory) != top and text and cpu in CpuSet.parse(text, str(path)):
            found.append(HostChange(kind=ChangeKind.CONSEQUENCE, path=names.from_path(path), before=text))
    return found


FAULT = Fault(
    id="cpu-offline",
    scope=Scope.HOST,
    title="a CPU goes offline",
    changes="/sys/devices/system/cpu/cpuN/online becomes 0; cpusets, affinities and interrupts that the kernel "
    "changes with it are put back at the end",
    field=("F32", "F33"),
    rules=(),
    undecides=("evidence-health",),
    prepare=prepare,
    keeps=Masks.ALL,
    about_a_cpu=True,
)
