"""How a scenario's plan is run, step by step: made once, as one value, before anything is put on the machine. Pure.

A broken run is a variation of the honest one. A fault says at which step it acts
(:class:`toolkit.faults.fault.When`): the node may be set up otherwise than promised, the promise be stricter, something
be planted in the sandbox, a change be announced and not made. :mod:`toolkit.session.engine.execute` runs either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from toolkit.errors import InputError
from toolkit.faults.fault import When
from toolkit.faults.registry import word_of
from toolkit.model.claims import ClaimSet
from toolkit.model.cpu_units import MAX_QUOTA_US
from toolkit.model.plan import Plan
from toolkit.model.sandbox import SandboxRequest
from toolkit.model.scenario import NegativeControl, Scenario
from toolkit.session.planning import from_plan, resizing
from toolkit.session.planning.from_plan import Stage
from toolkit.session.planning.planned import Planned

STAGE_S = 1.0
"""How long a stage before the last is watched, at most."""

CHANGES = (When.CLAIMS, When.CHANGE)
"""Faults of what the scenario changes while the window is open: it changes it in the broken run, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A stage, and what is done about it.

    :param stage: what is promised. :param request: what the machine is set up by.
    :param quotas: the plans between which CFS quotas are written before the stage is watched; ``None``: none change.
    :param most_s: for how long it is watched, at most.
    :param changes: whether the scenario's changes are made while its window is open.
    :param late: the pods that are started meanwhile.
    """

    stage: Stage
    request: SandboxRequest
    quotas: tuple[Plan, Plan] | None = None
    most_s: float = float("inf")
    changes: bool = False
    late: frozenset[str] = frozenset()


def _as_promised(claims: ClaimSet) -> ClaimSet:
    return claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The steps of a run, and what a broken one does otherwise.

    :param control: what is planted in the sandbox while it is watched; ``None``: nothing is broken.
    :param ignored: the claim to which a change is announced, and not made; empty: none.
    :param escapes: whether the canary that should keep its claim does not.
    :param promise: makes the claims stricter. :param rewrite: what becomes of the text of ``cpu_manager_state``.
    """

    work: Planned
    steps: tuple[Step, ...]
    control: NegativeControl | None = None
    ignored: str = ""
    escapes: bool = False
    promise: Callable[[ClaimSet], ClaimSet] = _as_promised
    rewrite: Callable[[str], str] = str

    @property
    def scenario(self) -> Scenario:
        """What is run."""
        return self.work.scenario


def honest(work: Planned, where: str = "") -> Course:
    """Return the run in which nothing is broken: every stage, the machine set up by the plan that is promised.

    :param where: of the scenario, for an error; empty: its name.
    :raises InputError: the kernel refuses a value of a plan.
    """
    _check_bounds(work, where)
    steps: list[Step] = []
    for stage in _stages(work):
        # A quota that a resize changes is written between the stage of before and the next.
        resized = bool(steps) and steps[-1].stage.name == resizing.BEFORE
        quotas = (work.plan, stage.plan) if resized else None
        steps.append(Step(stage=stage, request=_request(work, stage, stage.plan), quotas=quotas, most_s=STAGE_S))
    last = replace(steps[-1], most_s=float("inf"), changes=True, late=frozenset(work.scenario.arrivals))
    return Course(work=work, steps=(*steps[:-1], last))


def broken(work: Planned, control: NegativeControl, other: Planned | None = None) -> Course:
    """Return the run with one fault: of the stages, only the last in which its target runs; without a target the last.

    Nothing comes late: the target may, and the fault is planted before the window opens. It is watched for as long as
    the fault needs.

    :param other: what the machine is set up by, where that differs from what is promised.
    :raises InputError: the kernel refuses a value of a plan.
    """
    node, word, target = other or work, word_of(control), control.target
    _check_bounds(work)
    _check_bounds(node)
    stages = _stages(work)
    stage = next((one for one in reversed(stages) if not target or target in _names(work, one)), stages[-1])
    announced = word.when is When.CHANGE
    # What ignores a resize has the quotas of before; so has a node that is set up otherwise.
    put = node.plan if other is not None or announced else stage.plan
    step = Step(
        stage=stage,
        request=_request(node, stage, put),
        quotas=(put, stage.plan) if announced else None,
        most_s=word.watch_s,
        changes=word.when in CHANGES,
    )
    return Course(
        work=work,
        steps=(step,),
        control=control,
        ignored=target if announced else "",
        escapes=word.when is When.CANARIES,
        promise=partial(word.promise, control),
        rewrite=word.rewrite,
    )


def _stages(work: Planned) -> tuple[Stage, ...]:
    """What runs one after the other."""
    return resizing.parted(work.scenario, from_plan.stages(work.plan, work.before), work.resized)


def _request(node: Planned, stage: Stage, put: Plan) -> SandboxRequest:
    return from_plan.sandbox_request(put, node.scenario, stage.containers)


def _names(work: Planned, stage: Stage) -> frozenset[str]:
    """Every container of a stage, ephemeral ones included."""
    extra = from_plan.ephemeral(stage.plan, work.scenario, stage.containers)
    return stage.containers | {f"{pod.name}/{name}" for pod, name in extra}


def _check_bounds(work: Planned, where: str = "") -> None:
    """Refuse what a kubelet computes and no kernel takes: a CPU quota. A limit of memory that is too large is none.

    :raises InputError: which container or pod, what it would be given, and the most that there is.
    """
    for plan in work.every_plan:
        for name, quota_us, period_us in _quotas(plan):
            if quota_us > MAX_QUOTA_US:
                found = f"a CPU limit of {quota_us // period_us} CPUs (a quota of {quota_us} us)"
                most = f"at most {MAX_QUOTA_US // period_us}: the kernel takes quotas of up to {MAX_QUOTA_US} us"
                raise InputError(f"{where or work.scenario.name}: {name}", found, most)


def _quotas(plan: Plan) -> Iterator[tuple[str, int, int]]:
    """Yield name, quota and period of whatever gets a cgroup; a container's before its pod's."""
    for pod in plan.pods:
        if pod.admitted:
            yield from ((f"{pod.name}/{one.name}", one.quota_us, one.period_us) for one in pod.containers)
            yield pod.name, pod.quota_us, pod.period_us
