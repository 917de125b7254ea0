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

from tests.integration.account import Deed, Outside, Truth, gone, truth
from tests.integration.account_compared import Seen, SeenLeft, differences, leaves_differ
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
    """What pinproof said about a window: outcome and reason by (rule, subject), which thread was outside, which left.

    :param hidden_arrivals: how often threads that the kernel hides came onto a CPU meanwhile, where that is known.
    """

    verdicts: dict[tuple[str, str], tuple[str, str]]
    outside: tuple[Seen, ...]
    left: tuple[SeenLeft, ...]
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
        Seen(claim=owner, tid=row.tid, ns=row.total_ns, switches=row.switches)
        for row in evidence.intruders
        if (owner := _account_of(row.owner, row.claim, row.left))
    ]
    left = tuple(
        SeenLeft(claim=row.from_claim or FOREIGN, tid=row.tid, at_ns=evidence.start_monotonic_ns + row.at_ns)
        for row in evidence.cgroup_moves
        if row.leaves and not row.visit and row.hierarchy == "v2"
    )
    said = Said(verdicts=verdicts, outside=tuple(outside), left=left, hidden_arrivals=hidden.arrivals)
    return performed.result(), said


def _account_of(owner: str, claim: str, left: int) -> str:
    """Return on which account the time of a task on another's CPU is: a pod's, or of those that left; "": on none.

    The time of a visitor is a system task's.
    """
    if owner not in ("foreign-pod", "claim"):
        return ""
    return gone(claim or FOREIGN) if left else FOREIGN if owner == "foreign-pod" else ""


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
    evidence = answer.evidence
    outside = [
        Seen(claim=owner, tid=row["tid"], ns=row["total_ns"])
        for row in evidence["intruders"]
        if (owner := _account_of(row["owner"], row.get("claim", ""), row.get("left", 0)))
    ]
    left = tuple(
        SeenLeft(
            claim=row["from_claim"] or FOREIGN, tid=row["tid"], at_ns=evidence["start_monotonic_ns"] + row["at_ns"]
        )
        for row in evidence["cgroup_moves"]
        if row.get("leaves") and not row.get("visit") and row["hierarchy"] == "v2"
    )
    verdicts = {(one["rule"], one["subject"]): (one["outcome"], one["reason"]) for one in answer.result["verdicts"]}
    return deeds, Said(verdicts=verdicts, outside=(*answer.outside(), *outside), left=left)


def _stop(watch: Watch, plot: Plot) -> None:
    time.sleep(plot.stop_at_s)
    watch.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(plot.stop_s)
    finally:
        watch.process.send_signal(signal.SIGCONT)


def disagreements(made: Stage, deeds: list[Deed], said: Said) -> tuple[list[str], Truth]:
    """Return what was missed or invented, a line each, and the truth."""
    true = truth(deeds, tuple(spot.place() for spot in made.spots.values()), HOMES["web"])
    expected = true.outside
    found = [f"not performed: {one.action.line()}: errno {one.error}" for one in deeds if one.error]
    found += differences(expected, said.outside, said.hidden_arrivals)
    found += leaves_differ(true.left, said.left)
    for name in HOMES:
        rows = [row for (claim, _), row in expected.items() if claim == name]
        found += _held(said, CONTAINMENT, name, rows, any(one.claim == name for one in true.left))
    shared = {name for name, spot in made.spots.items() if spot.home != HOMES["web"]}
    shared |= {gone(name) for name in shared}
    found += _held(said, EXCLUSIVE, "web", [row for (claim, _), row in expected.items() if claim in shared])
    for rule, subject, reason in said.of("failed"):
        # A mask is wrong while its task escapes, whether it is read or not: it may be found, it need not.
        outside = any(claim == subject and row.most_ns for (claim, _), row in expected.items())
        known = rule in (CONTAINMENT, EXCLUSIVE) or (rule in (MASK, LAYERS) and outside)
        if not known:
            found.append(f"invented: {rule} of {subject} failed: {reason}")
    return found, true


def _held(said: Said, rule: str, subject: str, rows: list[Outside], left: bool = False) -> list[str]:
    outcome, reason = said.verdicts[rule, subject]
    if (left or any(row.planted for row in rows)) and outcome != "failed":
        return [f"missed: {rule} of {subject} is {outcome}: {reason}"]
    if not left and not any(row.most_ns for row in rows) and outcome == "failed":
        return [f"invented: {rule} of {subject} failed: {reason}"]
    return []
