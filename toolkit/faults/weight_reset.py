"""A container's share of contended CPU time becomes another one, mostly the kernel's default."""

from __future__ import annotations

from toolkit.faults import control_files
from toolkit.faults.fault import AT_ONCE_S, Alternatives, Fault, Scope, Target, When, Word
from toolkit.faults.injection import Host, Injection
from toolkit.model.claims import Isolation
from toolkit.model.cpu_units import DEFAULT_SHARES, DEFAULT_WEIGHT, linear_weight
from toolkit.model.scenario import NegativeControl

ID = "weight-reset"


def prepare(host: Host, injection: Injection) -> Alternatives:
    """Write ``shares``, or the kernel's default: weight 100, shares 1024."""
    if host.hierarchy.is_v2("cpu"):
        name, after = "cpu.weight", DEFAULT_WEIGHT if injection.shares is None else linear_weight(injection.shares)
    else:
        name, after = "cpu.shares", DEFAULT_SHARES if injection.shares is None else injection.shares
    return (tuple(control_files.write(host, "cpu", cgroup, name, str(after)) for cgroup in injection.targets),)


def _set(control: NegativeControl, target: Target) -> Injection:
    return Injection(fault=ID, targets=(target.cgroup,), shares=control.shares)


FAULT = Fault(
    id=ID,
    scope=Scope.CGROUP,
    title="the CPU weight is reset",
    changes="cpu.weight (cpu.shares) of the target becomes the kernel's default, 100 (1024)",
    field=("F14", "F63"),
    rules=("applied",),
    prepare=prepare,
    aims_at=Isolation.HOST,
    # The share becomes shares.
    words=(Word(word="set-shares", when=When.SANDBOX, watch_s=AT_ONCE_S, aim=_set),),
)
