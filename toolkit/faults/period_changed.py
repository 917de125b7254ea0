"""The period of a CFS quota changes and the quota does not: the container gets another bandwidth (F60)."""

from __future__ import annotations

from toolkit.errors import InputError
from toolkit.faults import control_files
from toolkit.faults.fault import Alternatives, Fault, Scope
from toolkit.faults.injection import Host, Injection
from toolkit.host import cgroupfs
from toolkit.model.claims import Isolation

PERIOD_US = 10_000


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Write ``period_us`` (``None``: 10 ms), and each target's own quota with it."""
    made = []
    for cgroup in injection.targets:
        quota_us = cgroupfs.read_files(host.hierarchy, cgroup, 0).quota_us
        if quota_us is None or quota_us <= 0:
            raise InputError(f"--target {cgroup}", "it has no quota", "a cgroup with a CFS quota")
        made.append(control_files.bandwidth(host, cgroup, quota_us, injection.period_us or PERIOD_US))
    return (tuple(change for changes in made for change in changes),)


FAULT = Fault(
    id="period-changed",
    scope=Scope.CGROUP,
    title="the CFS period changes, the quota is not rescaled",
    changes="the period in cpu.max (cpu.cfs_period_us) of the target becomes 10000 us, its quota stays",
    field=("F60",),
    rules=("applied",),
    prepare=prepare,
    aims_at=Isolation.HOST,
)
