"""A container's tasks run only where nothing else wants the CPU: its cgroup becomes an idle one."""

from __future__ import annotations

from toolkit.apply.change import HostChange
from toolkit.faults import control_files
from toolkit.faults.fault import Alternatives, Fault, Scope
from toolkit.faults.injection import Host, Injection
from toolkit.model.claims import Isolation
from toolkit.model.cpu_units import DEFAULT_SHARES, DEFAULT_WEIGHT

ID = "cpu-idle"


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Write 1 into ``cpu.idle``, which kernels from 5.15 on have."""
    return (tuple(change for cgroup in injection.targets for change in _idle(host, cgroup)),)


def _idle(host: Host, cgroup: str) -> tuple[HostChange, ...]:
    """A cgroup that is idle no more has the default weight: that is written first, so that it is taken back last.

    Source: kernel/sched/fair.c (``sched_group_set_idle``).
    """
    idle = control_files.write(host, "cpu", cgroup, "cpu.idle", "1")
    v2 = host.hierarchy.is_v2("cpu")
    name, usual = ("cpu.weight", DEFAULT_WEIGHT) if v2 else ("cpu.shares", DEFAULT_SHARES)
    if host.control("cpu", cgroup, name)[1].strip() == str(usual):
        return (idle,)
    return control_files.write(host, "cpu", cgroup, name, str(usual)), idle


FAULT = Fault(
    id=ID,
    scope=Scope.CGROUP,
    title="the cgroup becomes idle",
    changes="cpu.idle of the target becomes 1",
    field=(),
    rules=("applied",),
    prepare=prepare,
    aims_at=Isolation.HOST,
)
