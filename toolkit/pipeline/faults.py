"""Break a promise on purpose, for real, inside our own sandbox: the negative controls of scenarios."""

from __future__ import annotations

from dataclasses import replace

from toolkit.apply.sandbox import LiveSandbox
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import SandboxRequest, Workload, WorkloadKind
from toolkit.model.scenario import FaultKind, NegativeControl


def apply_fault(control: NegativeControl, live: LiveSandbox, request: SandboxRequest, online: CpuSet) -> None:
    """Do what the control says; the claims stay as they were promised.

    :param request: what was put on the machine.
    """
    match control.fault:
        case FaultKind.WIDEN_CPUSET:
            live.set_cpus(control.target, online)
            # A busy task may stay where it is; one that visits each CPU uses what the wider set allows.
            live.spawn(control.target, Workload(kind=WorkloadKind.AFFINITY_ESCAPER))
        case FaultKind.SET_QUOTA:
            _set_quota(control, live, request)
        case FaultKind.CANARY_ESCAPE:
            """Done where the canaries are made: they are not part of the sandbox."""


def _set_quota(control: NegativeControl, live: LiveSandbox, request: SandboxRequest) -> None:
    quota_us = NO_QUOTA if control.quota_us is None else control.quota_us
    period_us = control.period_us or 100_000
    target = next(container for container in request.containers if container.claim == control.target)
    pod = target.cgroup.path.rpartition("/")[0]
    for parent in request.parents:
        # A pod's own quota would still hold the container back, and v1 refuses a child above its parent.
        if parent.path == pod and parent.quota_us is not None and parent.quota_us > 0:
            wider = quota_us < 0 or quota_us * parent.period_us > parent.quota_us * period_us
            if wider:
                live.set_parent(replace(parent, quota_us=NO_QUOTA))
    live.set_bandwidth(control.target, quota_us, period_us)
