"""Break a promise on purpose, for real, inside our own sandbox: the negative controls of scenarios."""

from __future__ import annotations

from toolkit.apply.sandbox import LiveSandbox
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import Workload, WorkloadKind
from toolkit.model.scenario import FaultKind, NegativeControl


def apply_fault(control: NegativeControl, live: LiveSandbox, online: CpuSet) -> None:
    """Do what the control says; the claims stay as they were promised."""
    match control.fault:
        case FaultKind.WIDEN_CPUSET:
            live.set_cpus(control.target, online)
            # A busy task may stay where it is; one that visits each CPU uses what the wider set allows.
            live.spawn(control.target, Workload(kind=WorkloadKind.AFFINITY_ESCAPER))
        case FaultKind.SET_QUOTA:
            live.set_bandwidth(control.target, control.quota_us or NO_QUOTA, control.period_us or 100_000)
        case FaultKind.CANARY_ESCAPE:
            """Done where the canaries are made: they are not part of the sandbox."""
