"""Churn under observation: containers come, go, die, exec and are resized at random; the model says what must hold.

Every operation is done for real in a sandbox while the observer watches; after it the kernel's cpusets are compared
with the model's. Windows of a few operations are judged by all rules. On a healthy machine no rule may say ``failed``;
with planted faults each must be reported by its rule about its target, and nothing else may be.

A promise of bandwidth holds for a whole window, so a resize of a quota happens between two windows.

The model is ``model``, the machine ``scene``, the faults ``faults``; here is the loop of windows.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.churn import faults as planting
from tests.churn.faults import FaultResult
from tests.churn.model import ChurnModel, Operation, Step
from tests.churn.scene import Scene
from toolkit.apply import sandbox as apply
from toolkit.faults.fault import Fault
from toolkit.faults.injection import Injection
from toolkit.faults.planting import planted
from toolkit.host.topology import read_topology
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import SandboxRequest
from toolkit.model.verdict import Outcome
from toolkit.session.engine.observe import Observation, keep_off
from toolkit.session.engine.session import Session, session
from toolkit.session.engine.window import Window
from toolkit.session.planning.planned import machine_of
from validators.registry import judge

STEPS_PER_WINDOW = 5
REPORTS = 5
"""Looks at the reports before a window ends: the positive control's must have arrived."""
FAULT_DEADLINE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnReport:
    """What a run of churn showed. :param false_alarms: ``failed`` verdicts that no planted fault explains.

    :param undecided: the windows in which a rule was undecided, each with its rules, subjects and reasons.
    """

    seed: int
    duration_s: float
    windows: int
    operations: dict[Operation, int]
    outcomes: dict[str, int]
    """``rule outcome`` -> how often."""
    transitions_ms: tuple[tuple[str, float], ...]
    false_alarms: tuple[str, ...]
    undecided: tuple[str, ...]
    mismatches: tuple[str, ...]
    """Where the kernel's cpusets were not the model's."""
    faults: tuple[FaultResult, ...]


@dataclass(slots=True)
class _Tally:
    operations: Counter[Operation] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    transitions: list[tuple[str, float]] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    faults: list[FaultResult] = field(default_factory=list)
    windows: int = 0


def churn(*, duration_s: float, seed: int, run_id: str, faults: bool = False, root: Path = Path("/")) -> ChurnReport:
    """Churn for some time. :param faults: plant one in every window.

    :raises HostUnsupportedError: this host cannot watch, or a kubelet could not start here.
    """
    topology = read_topology(root)
    reserved = CpuSet.of([topology.online.first()])
    model = ChurnModel(machine_of(topology), reserved, random.Random(seed))
    base = ClaimSet(claims=(), reserved_cpus=reserved, pods_root=f"/pinproof-{run_id}")
    tally = _Tally()
    began = time.monotonic()
    with (
        keep_off(topology.online - reserved),
        apply.sandbox(SandboxRequest(), run_id=run_id, root=root) as live,
        session(base, Window(run_id=run_id, duration_s=None, root=root)) as engine,
    ):
        live.before_delete = engine.opened.observer.read_last
        scene = Scene(model=model, live=live, opened=engine.opened, base=base)
        while time.monotonic() < began + duration_s:
            _window(scene, engine, root, tally, faults=faults)
    return ChurnReport(
        seed=seed,
        duration_s=time.monotonic() - began,
        windows=tally.windows,
        operations=dict(tally.operations),
        outcomes=dict(tally.outcomes),
        transitions_ms=tuple(tally.transitions),
        false_alarms=tuple(tally.alarms),
        undecided=tuple(tally.undecided),
        mismatches=tuple(tally.mismatches),
        faults=tuple(tally.faults),
    )


def _window(scene: Scene, engine: Session, root: Path, tally: _Tally, *, faults: bool) -> None:
    """Open a window, let some things happen in it, close and judge it."""
    scene.claims = scene.present()
    happened = _Happened()
    # A fault stands until its window has been closed.
    with ExitStack() as stands:
        done = engine.window(
            Path(scene.live.value.run_id),
            lambda opened: _happen(scene, opened, happened, stands, root, tally, faults=faults),
            claims=scene.claim_set(),
            rescue=False,
        )
    tally.windows += 1
    tally.outcomes.update(f"{verdict.rule} {verdict.outcome}" for verdict in done.verdicts)
    tally.transitions += [(t.what, (t.end_at_ns - t.start_at_ns) / 1e6) for t in done.evidence.transitions]
    explained: set[tuple[str, str]] = set()
    if happened.fault is not None:
        kind, claim, _ = happened.fault
        tally.faults.append(planting.result(kind, claim, done.verdicts))
        explained = planting.explained(scene, kind, claim)
    tally.alarms += [
        f"{v.rule} {v.subject}: {v.reason} (window {tally.windows}, {dict(v.measures)})"
        for v in done.verdicts
        if v.outcome is Outcome.FAILED and (v.rule, v.subject) not in explained
    ]
    open_questions = [f"{v.rule} {v.subject}: {v.reason}" for v in done.verdicts if v.outcome is Outcome.UNDECIDED]
    if open_questions:
        tally.undecided.append(f"window {tally.windows}: {'; '.join(open_questions)}")
    if happened.late is not None:
        scene.do(happened.late)
        tally.mismatches += scene.mismatches()


@dataclass(slots=True)
class _Happened:
    """What happened in a window. :param late: a resize that waits until it is over. :param fault: what was planted."""

    late: Step | None = None
    fault: tuple[Fault, str, Injection] | None = None


def _happen(
    scene: Scene,
    opened: Observation,
    happened: _Happened,
    stands: ExitStack,
    root: Path,
    tally: _Tally,
    *,
    faults: bool,
) -> None:
    for _ in range(STEPS_PER_WINDOW):
        step = scene.model.step()
        tally.operations[step.operation] += 1
        if step.operation is Operation.RESIZE:
            # Done when the window is over: a quota is judged over a whole one, and would be neither of the two.
            happened.late = step
            break
        scene.do(step)
        opened.poll(0.02)
        tally.mismatches += scene.mismatches()
    for _ in range(REPORTS):
        opened.poll(0.05)
    happened.fault = planting.choose(scene, root) if faults and happened.late is None else None
    if happened.fault is None:
        return
    kind, claim, injection = happened.fault
    stands.enter_context(planted(injection, run_id=f"{scene.live.value.run_id}-fault", root=root))
    deadline = time.monotonic() + FAULT_DEADLINE_S
    while not planting.reported(kind, claim, judge(scene.claim_set(), opened.snapshot())):
        if time.monotonic() > deadline:
            return
        opened.poll(0.2)
