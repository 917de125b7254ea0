"""A container gets a CFS quota that its claim does not have, or another one."""

from __future__ import annotations

from toolkit.apply.change import HostChange
from toolkit.errors import InputError
from toolkit.faults import control_files
from toolkit.faults.fault import AT_ONCE_S, Alternatives, Fault, Scope, Target, When, Word
from toolkit.faults.injection import Host, Injection
from toolkit.model.claims import NO_QUOTA
from toolkit.model.sandbox import WorkloadKind
from toolkit.model.scenario import NegativeControl

ID = "quota-imposed"
PERIOD_US = 100_000
LEAST_US = 1000


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Write ``quota_us`` of each ``period_us`` (``None``: as it is), with ``pod_too`` after the pod's was lifted."""
    if NO_QUOTA != injection.quota_us < LEAST_US:
        raise InputError("--quota", str(injection.quota_us), f"at least {LEAST_US} us, the kernel's least")
    made: list[HostChange] = []
    for cgroup in injection.targets:
        if injection.pod_too:
            made += control_files.pods_quota(host, cgroup, injection.quota_us, injection.period_us or PERIOD_US)
        made += control_files.bandwidth(host, cgroup, injection.quota_us, injection.period_us)
    return (tuple(made),)


def _set(control: NegativeControl, target: Target) -> Injection:
    return Injection(
        fault=ID,
        targets=(target.cgroup,),
        quota_us=NO_QUOTA if control.quota_us is None else control.quota_us,
        period_us=control.period_us or PERIOD_US,
        pod_too=True,
    )


FAULT = Fault(
    id=ID,
    scope=Scope.CGROUP,
    title="an exclusive container gets a quota",
    changes="cpu.max (cpu.cfs_quota_us) of the target becomes --quota of each 100000 us (default 1000: 1 %)",
    field=("F56", "F57", "F62"),
    rules=("applied", "quota-free"),
    prepare=prepare,
    load=WorkloadKind.SPIN,
    consequences=(),
    # The bandwidth becomes quotaUs of each periodUs (-1: none), whatever has it.
    words=(Word(word="set-quota", when=When.SANDBOX, watch_s=AT_ONCE_S, aim=_set),),
)
