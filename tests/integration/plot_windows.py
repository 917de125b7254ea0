"""Performs a plot in one window, and holds what pinproof says against what was done.

Two doors: an observation in this process, which is quick, and ``pinproof watch`` as a child, that may be stopped.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.account import Deed, Outside, truth
from tests.integration.account_compared import Seen, differences
from tests.integration.perf_account import HiddenThreads
from tests.integration.planting import Watch, cgroup, cpuset_mount, direct, identity, legacy_cpuset, procs
from tests.integration.plot_scenes import CALM, FOREIGN, REMADE, Spot, Stage
from tests.integration.plots import Plot
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.session.engine.observe import observation
from toolkit.session.engine.prepared import Prepared
from toolkit.session.engine.window import Window
from validators.registry import judge

CONTAINMENT, EXCLUSIVE, MASK, HEALTH = "cpuset-containment", "exclusive-cpus", "affinity-mask", "evidence-health"
LAYERS = "layers-agree"
HOMES = {"db": 0, "web": 1, CALM: 0, REMADE: 0}
"""Each claim's one CPU. That of ``web`` is its own: it is hers alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What pinproof said about a window: outcome and reason by (rule, subject), and which thread was outside.

    :param hidden_arrivals: how often threads that the kernel hides came onto a CPU meanwhile, where that is known.
    """

    verdicts: dict[tuple[str, str], tuple[str, str]]
    outside: tuple[Seen, ...]
    hidden_arrivals: int = 0

    def of(self, outcome: str) -> list[tuple[str, str, str]]:
        """Return rule, subject and reason of the verdicts with this outcome."""
        return [(*key, reason) for key, (what, reason) in self.verdicts.items() if what == outcome]


@contextmanager
def stage(prefix: str) -> Iterator[Stage]:
    """Make the claims' cgroups and a pod's cgroup without a claim; where cpusets are apart, one for ``db``."""
    with ExitStack() as stack:
        made = {name: stack.enter_context(cgroup(f"{prefix}-{name}")) for name in HOMES}
        pods = stack.enter_context(cgroup(f"{prefix}-pods"))
        made[FOREIGN] = stack.enter_context(cgroup(f"{prefix}-pods/{FOREIGN}"))
        assert pods
        cpuset = stack.enter_context(legacy_cpuset(f"{prefix}-db", HOMES["db"])) if cpuset_mount() else ""
        spots = {
            name: Spot(
                name=name,
                directory=str(identity(path)),
                home=HOMES.get(name, 0),
                cpuset=cpuset if name == "db" else "",
            )
            for name, path in made.items()
        }
        yield Stage(spots=spots, exit=procs())


def inside(made: Stage, plot: Plot, director: Path, prepared: Prepared, prefix: str) -> tuple[list[Deed], Said]:
    """Perform a plot in a window of an observation in this process."""
    claims = ClaimSet(
        claims=tuple(
            Claim(
                name=name,
                cgroup=f"/{prefix}-{name}",
                pod=name,
                cpus=CpuSet.of([home]),
                isolation=Isolation.CONTAINER if name == "web" else Isolation.HOST,
            )
            for name, home in HOMES.items()
        ),
        pods_root=f"/{prefix}-pods",
    )
    window = Window(run_id=prefix, duration_s=None, prepared=prepared)
    hidden = HiddenThreads()
    with ThreadPoolExecutor(1) as pool, observation(claims, window) as watching:
        performed = pool.submit(direct, director, list(plot.script), 0)
        while not performed.done():
            watching.poll(0.05)
        evidence = watching.close().evidence
    hidden.read(prepared.ledger.seen)
    verdicts = {(one.rule, one.subject): (str(one.outcome), one.reason) for one in judge(claims, evidence)}
    outside = [Seen(claim=row.claim, tid=row.tid, ns=row.total_ns, switches=row.switches) for row in evidence.offenders]
    outside += [
        Seen(claim=FOREIGN, tid=row.tid, ns=row.total_ns, switches=row.switches)
        for row in evidence.intruders
        if row.owner == "foreign-pod"
    ]
    said = Said(verdicts=verdicts, outside=tuple(outside), hidden_arrivals=hidden.arrivals)
    return performed.result(), said


def through_the_verb(
    made: Stage, plot: Plot, director: Path, folder: Path, prefix: str, *, stop: bool
) -> tuple[list[Deed], Said]:
    """Perform a plot in a window of ``pinproof watch``; it is stopped meanwhile, as the plot says, if it shall be."""
    claims: dict[str, Any] = {
        "podsRoot": f"/{prefix}-pods",
        "claims": [
            {
                "name": name,
                "pod": name,
                "cgroup": f"/{prefix}-{name}",
                "cpus": str(home),
                "isolation": "container" if name == "web" else "host",
            }
            for name, home in HOMES.items()
        ],
    }
    with Watch(claims, folder) as watch:
        stopper = threading.Thread(target=_stop, args=(watch, plot))
        if stop:
            stopper.start()
        deeds = direct(director, list(plot.script), 0)
        if stop:
            stopper.join()
        answer = watch.answer()
    outside = [
        Seen(claim=FOREIGN, tid=row["tid"], ns=row["total_ns"])
        for row in answer.evidence["intruders"]
        if row["owner"] == "foreign-pod"
    ]
    verdicts = {(one["rule"], one["subject"]): (one["outcome"], one["reason"]) for one in answer.result["verdicts"]}
    return deeds, Said(verdicts=verdicts, outside=(*answer.outside(), *outside))


def _stop(watch: Watch, plot: Plot) -> None:
    time.sleep(plot.stop_at_s)
    watch.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(plot.stop_s)
    finally:
        watch.process.send_signal(signal.SIGCONT)


def disagreements(made: Stage, deeds: list[Deed], said: Said) -> tuple[list[str], dict[tuple[str, str], Outside]]:
    """Return what was missed or invented, a line each, and the truth."""
    expected = truth(deeds, tuple(spot.place() for spot in made.spots.values()))
    found = [f"not performed: {one.action.line()}: errno {one.error}" for one in deeds if one.error]
    found += differences(expected, said.outside, said.hidden_arrivals)
    executed = {one.action.actor for one in deeds if one.action.verb == "exec"}
    for name in HOMES:
        if executed and _only_left(said, name):
            continue  # who executes a program inside, and is moved out then, has left: a finding of any claim
        rows = [row for (claim, _), row in expected.items() if claim == name]
        found += _held(said, CONTAINMENT, name, rows)
    shared = {name for name, spot in made.spots.items() if spot.home != HOMES["web"]}
    found += _held(said, EXCLUSIVE, "web", [row for (claim, _), row in expected.items() if claim in shared])
    for rule, subject, reason in said.of("failed"):
        # A mask is wrong while its task escapes, whether somebody looks or not: it may be found, it need not.
        outside = any(claim == subject and row.most_ns for (claim, _), row in expected.items())
        known = rule in (CONTAINMENT, EXCLUSIVE) or (rule in (MASK, LAYERS) and outside)
        if not known:
            found.append(f"invented: {rule} of {subject} failed: {reason}")
    return found, expected


def _only_left(said: Said, subject: str) -> bool:
    outcome, reason = said.verdicts[CONTAINMENT, subject]
    return outcome == "failed" and " left its cgroup for " in reason and "outside" not in reason


def _held(said: Said, rule: str, subject: str, rows: list[Outside]) -> list[str]:
    outcome, reason = said.verdicts[rule, subject]
    if any(row.planted for row in rows) and outcome != "failed":
        return [f"missed: {rule} of {subject} is {outcome}: {reason}"]
    if not any(row.most_ns for row in rows) and outcome == "failed":
        return [f"invented: {rule} of {subject} failed: {reason}"]
    return []
