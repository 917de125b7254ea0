"""A container's limits on huge pages are gone: it may take what others were promised."""

from __future__ import annotations

from toolkit.faults import control_files
from toolkit.faults.fault import AT_ONCE_S, Alternatives, Fault, Scope, Target, When, Word
from toolkit.faults.injection import Host, Injection
from toolkit.model.scenario import NegativeControl

ID = "hugepages-unlimited"


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Take away the limit of every page size that has one (cgroup v2)."""
    return (
        tuple(
            change
            for cgroup in injection.targets
            for change in control_files.every(host, cgroup, "hugetlb", "hugetlb.*.max", "max")
        ),
    )


def _unlimit(_control: NegativeControl, target: Target) -> Injection:
    return Injection(fault=ID, targets=(target.cgroup,))


FAULT = Fault(
    id=ID,
    scope=Scope.CGROUP,
    title="the limits on huge pages are taken away",
    changes="hugetlb.<size>.max of the target becomes max for every page size",
    field=(),
    rules=("hugepages",),
    prepare=prepare,
    injectable=False,
    words=(Word(word="unlimit-hugepages", when=When.SANDBOX, watch_s=AT_ONCE_S, aim=_unlimit),),
)
