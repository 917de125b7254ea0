"""Break a promise on purpose, for real, inside our own sandbox: the negative controls of scenarios."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path

from toolkit.apply import cgroups
from toolkit.apply.sandbox import LiveSandbox
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.cgroupfs import NO_LIMIT
from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import ContainerRequest, SandboxRequest, Workload, WorkloadKind
from toolkit.model.scenario import FaultKind, NegativeControl
from toolkit.pipeline.escaper import Escaper


def apply_fault(
    control: NegativeControl, live: LiveSandbox, request: SandboxRequest, online: CpuSet, root: Path = Path("/")
) -> Escaper | None:
    """Do what the control says; the claims stay as they were promised.

    :param request: what was put on the machine.
    :returns: who makes the fault show, where it takes somebody's doing.
    :raises InputError: the target is not there, or has nothing that the fault could change.
    """
    match control.fault:
        case FaultKind.WIDEN_CPUSET:
            live.set_cpus(_target(control, request).claim, online)
            # A busy task may stay where it is; one that visits each CPU uses what the wider set allows.
            return Escaper(live.spawn(control.target, Workload(kind=WorkloadKind.AFFINITY_ESCAPER)), root)
        case FaultKind.NARROW_CPUSET:
            cpus = _target(control, request).cgroup.cpus or online
            if len(cpus) < 2:
                raise InputError(f"negative control {control.rule}", f"one CPU ({cpus})", "a target with two or more")
            live.set_cpus(control.target, CpuSet.of([cpus.first()]))
        case FaultKind.WIDEN_MEMS:
            nodes = read_control(root / "sys/devices/system/node/has_memory")
            cgroups.set_mems(live.hierarchy, _cgroup(control, live, request), CpuSet.parse(nodes or "0"))
        case FaultKind.SET_QUOTA:
            _set_quota(control, live, request)
        case FaultKind.SET_SHARES:
            cgroups.set_weight(live.hierarchy, _cgroup(control, live, request), shares=control.shares, weight=None)
        case FaultKind.UNLIMIT_HUGEPAGES:
            for limit in _target(control, request).cgroup.hugepages:
                cgroups.set_hugepages(live.hierarchy, _cgroup(control, live, request), limit.page_bytes, NO_LIMIT)
        case FaultKind.PILE_UP:
            pile_up(live, control.target, _target(control, request).cgroup.cpus or online)
        case FaultKind.RESIZE_IGNORED | FaultKind.TIGHT_LIMIT:
            """Done while the window is open, where the change happens."""
        case FaultKind.TORN_STATE:
            """Done where the state files are written down."""
        case FaultKind.CANARY_ESCAPE:
            """Done where the canaries are made: they are not part of the sandbox."""
        case FaultKind.CHANGE_NODE | FaultKind.MISCONFIGURE_NODE:
            """Done where the node is planned: the sandbox is another one."""
    return None


def _target(control: NegativeControl, request: SandboxRequest) -> ContainerRequest:
    for container in request.containers:
        if container.claim == control.target:
            return container
    names = ", ".join(container.claim for container in request.containers)
    raise InputError(f"negative control {control.rule}", f"target {control.target!r} does not run", f"one of {names}")


def _cgroup(control: NegativeControl, live: LiveSandbox, request: SandboxRequest) -> str:
    claim = _target(control, request).claim
    return next(container.cgroup for container in live.value.containers if container.claim == claim)


def _set_quota(control: NegativeControl, live: LiveSandbox, request: SandboxRequest) -> None:
    quota_us = NO_QUOTA if control.quota_us is None else control.quota_us
    period_us = control.period_us or 100_000
    target = _target(control, request)
    pod = target.cgroup.path.rpartition("/")[0]
    for parent in request.parents:
        # A pod's own quota would still hold the container back, and v1 refuses a child above its parent.
        if parent.path == pod and parent.quota_us is not None and parent.quota_us > 0:
            wider = quota_us < 0 or quota_us * parent.period_us > parent.quota_us * period_us
            if wider:
                live.set_parent(replace(parent, quota_us=NO_QUOTA))
    live.set_bandwidth(control.target, quota_us, period_us)


def pile_up(live: LiveSandbox, claim: str, cpus: CpuSet) -> None:
    """Let every thread of a container narrow itself to its first CPU, as threads do that are never balanced (F36)."""
    cgroup = next(container.cgroup for container in live.value.containers if container.claim == claim)
    done: set[int] = set()
    # Threads inherit the mask of their maker, so the last round finds nobody new.
    while fresh := set(cgroupfs.tids(live.hierarchy, cgroup)) - done:
        for tid in fresh:
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(tid, {cpus.first()})
        done |= fresh
