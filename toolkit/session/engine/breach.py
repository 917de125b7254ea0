"""What a broken run does otherwise than an honest one, step by step; :mod:`toolkit.session.engine.execute` runs both.

A fault says at which step it acts (:class:`toolkit.faults.fault.When`): the node may be set up otherwise than promised,
the promise be stricter, something be planted in the sandbox, a change be announced and not made.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.faults.controls import broken
from toolkit.faults.escaper import Escaper
from toolkit.faults.fault import When, Word
from toolkit.faults.registry import word_of
from toolkit.model.claims import ClaimSet
from toolkit.model.plan import Plan
from toolkit.model.scenario import NegativeControl
from toolkit.session.engine.resize_writes import write_bandwidth
from toolkit.session.planning import from_plan, resizing
from toolkit.session.planning.from_plan import Stage
from toolkit.session.planning.planned import Planned
from validators.registry import needed_s

STAGE_S = 1.0
"""How long a stage before the last is watched, at most."""

CHANGES = (When.CLAIMS, When.CHANGE)
"""Faults of what the scenario changes while the window is open: it changes it in the broken run, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Honest:
    """A run in which nothing is broken: every stage, the machine set up by the plan that is promised."""

    work: Planned

    @property
    def node(self) -> Planned:
        """What the machine is set up by."""
        return self.work

    @property
    def ignored(self) -> str:
        """The claim to which a change is announced, and not made; empty: none."""
        return ""

    @property
    def escapes(self) -> bool:
        """Whether the canary that should keep its claim does not."""
        return False

    @property
    def rewrite(self) -> Callable[[str], str]:
        """What becomes of the text of ``cpu_manager_state``."""
        return str

    @property
    def late(self) -> frozenset[str]:
        """The pods that are started while the last window is open."""
        return frozenset(self.work.scenario.arrivals)

    def stages(self) -> tuple[Stage, ...]:
        """Return what runs one after the other."""
        work = self.work
        return resizing.parted(work.scenario, from_plan.stages(work.plan, work.before), work.resized)

    def put(self, stage: Stage) -> Plan:
        """Return the plan that the machine is set up by in a stage."""
        return stage.plan

    def resize(self, live: LiveSandbox, before: Stage | None, stage: Stage) -> None:
        """Write the quotas that a stage has and the one before it had not."""
        if before is not None and before.name == resizing.BEFORE:
            write_bandwidth(live, self.work.plan, stage.plan)

    def promised(self, claims: ClaimSet) -> ClaimSet:
        """Return what is promised of what runs."""
        return claims

    def planted(self, _live: LiveSandbox, _claims: ClaimSet, _root: Path) -> AbstractContextManager[Escaper | None]:
        """Return what lies in the sandbox while it is watched; gives the task that makes it show, where one must."""
        return nullcontext(None)

    def seconds(self, asked_s: float, claims: ClaimSet, *, brief: bool, last: bool) -> float:
        """Return how long a stage is watched. :param brief: no longer than the rules need to pass what is claimed."""
        if brief:
            asked_s = min(asked_s, needed_s(claims))
        return asked_s if last else min(STAGE_S, asked_s)

    def changes(self, *, last: bool) -> bool:
        """Return whether the scenario's changes are made while a stage's window is open."""
        return last


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(Honest):
    """A run with one fault. Of the stages, only the one in which its target runs.

    :param other: what the machine is set up by, where that differs from what is promised.
    """

    control: NegativeControl
    other: Planned | None = None

    @property
    def word(self) -> Word:
        """The scenario's word for the fault."""
        return word_of(self.control)

    @property
    def node(self) -> Planned:
        """As in :class:`Honest`."""
        return self.other or self.work

    @property
    def ignored(self) -> str:
        """As in :class:`Honest`."""
        return self.control.target if self.word.when is When.CHANGE else ""

    @property
    def escapes(self) -> bool:
        """As in :class:`Honest`."""
        return self.word.when is When.CANARIES

    @property
    def rewrite(self) -> Callable[[str], str]:
        """As in :class:`Honest`."""
        return self.word.rewrite

    @property
    def late(self) -> frozenset[str]:
        """Nothing: the target may be one of them, and the fault is planted before the window opens."""
        return frozenset()

    def stages(self) -> tuple[Stage, ...]:
        """Return the last stage in which the target runs; without a target the last."""
        stages, target = Honest.stages(self), self.control.target
        return (next((one for one in reversed(stages) if not target or target in self._names(one)), stages[-1]),)

    def put(self, stage: Stage) -> Plan:
        """What ignores a resize has the quotas of before; so has a node that is set up otherwise."""
        return self.node.plan if self.other is not None or self.word.when is When.CHANGE else stage.plan

    def resize(self, live: LiveSandbox, before: Stage | None, stage: Stage) -> None:
        """Write the quotas of a change that is announced, but not those of the target."""
        del before
        if self.word.when is When.CHANGE:
            write_bandwidth(live, self.put(stage), stage.plan, ignored=self.control.target)

    def promised(self, claims: ClaimSet) -> ClaimSet:
        """Return the claims, made stricter where that is the fault."""
        return self.word.promise(self.control, claims)

    def planted(self, live: LiveSandbox, claims: ClaimSet, root: Path) -> AbstractContextManager[Escaper | None]:
        """Plant the fault for as long as the block runs."""
        nodes = tuple(node.cpus for node in self.work.topology.numa)
        return broken(self.control, live, claims, self.work.online, root, nodes)

    def seconds(self, asked_s: float, claims: ClaimSet, *, brief: bool, last: bool) -> float:
        """Return how long the fault needs, at most what was asked for."""
        del claims, brief, last
        return min(self.word.watch_s, asked_s)

    def changes(self, *, last: bool) -> bool:
        """Return whether the fault is about the scenario's changes: any other needs none of them."""
        del last
        return self.word.when in CHANGES

    def _names(self, stage: Stage) -> frozenset[str]:
        """Every container of a stage, ephemeral ones included."""
        extra = from_plan.ephemeral(stage.plan, self.work.scenario, stage.containers)
        return stage.containers | {f"{pod.name}/{name}" for pod, name in extra}
