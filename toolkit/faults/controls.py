"""Negative controls: a scenario's word for a fault, planted in the sandbox that the scenario is about."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.errors import ApplyError, InputError
from toolkit.faults.escaper import Escaper
from toolkit.faults.fault import Target
from toolkit.faults.injection import Host
from toolkit.faults.planting import planted
from toolkit.faults.registry import word_of
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import Workload
from toolkit.model.scenario import NegativeControl


@contextlib.contextmanager
def broken(
    control: NegativeControl,
    live: LiveSandbox,
    claims: ClaimSet,
    online: CpuSet,
    root: Path = Path("/"),
    nodes: tuple[CpuSet, ...] = (),
) -> Iterator[Escaper | None]:
    """Break what the control says for as long as the block runs; the claims stay as they were promised.

    A fault that acts at another stage (:class:`toolkit.faults.fault.When`) changes nothing here.

    :param claims: of what was put on the machine: containers, pods and QoS classes can be aimed at.
    :param nodes: the CPUs of each NUMA node.
    :returns: the task that makes the fault show, where one must.
    :raises InputError: the target is not there, or the control makes no sense for it.
    :raises ApplyError: the fault would change nothing on this machine, or the kernel refused it.
    """
    word = word_of(control)
    if word.aim is None:
        yield None
        return
    wanted = _claim(control, claims)
    target = Target(
        claim=control.target,
        cgroup=wanted.cgroup,
        cpus=wanted.cpus,
        mems=wanted.mems,
        online=online,
        memory_nodes=Host(root, live.hierarchy, live.value.run_id).memory_nodes(),
        nodes=nodes,
    )
    injection = word.aim(control, target)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(planted(injection, run_id=f"{live.value.run_id}-fault", root=root))
        except InputError as error:
            # The scenario is right, this machine gives the fault nothing to change: other controls go on.
            raise ApplyError(str(error)) from None
        yield Escaper(live.spawn(control.target, Workload(kind=word.load)), root) if word.load else None


def _claim(control: NegativeControl, claims: ClaimSet) -> Claim:
    for claim in claims.claims:
        if claim.name == control.target:
            return claim
    names = ", ".join(claim.name for claim in claims.claims)
    raise InputError(f"negative control {control.rule}", f"target {control.target!r} does not run", f"one of {names}")
