"""A container loses its CFS quota."""

from __future__ import annotations

from toolkit.faults import control_files
from toolkit.faults.fault import Alternatives, Fault, Scope
from toolkit.faults.injection import Host, Injection
from toolkit.model.claims import NO_QUOTA, Isolation


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Write no quota; the period stays."""
    return (
        tuple(change for cgroup in injection.targets for change in control_files.bandwidth(host, cgroup, NO_QUOTA)),
    )


FAULT = Fault(
    id="quota-reset",
    scope=Scope.CGROUP,
    title="the CFS quota is reset",
    changes="cpu.max (cpu.cfs_quota_us) of the target becomes max (-1)",
    field=("F10", "F14"),
    rules=("applied",),
    prepare=prepare,
    aims_at=Isolation.HOST,
    consequences=("quota-throttling",),
)
