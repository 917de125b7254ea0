"""The faults of churn: which one can be planted now, whether its rules reported it, which verdicts it explains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.churn.scene import Scene
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.faults.fault import Fault
from toolkit.faults.injection import Host, Injection
from toolkit.faults.planting import prepared
from toolkit.faults.registry import FAULTS
from toolkit.model.claims import Isolation
from toolkit.model.sandbox import Workload
from toolkit.model.verdict import Outcome, Verdict

PLANTED = tuple(fault for fault in FAULTS if fault.consequences is not None)
"""Faults of the second run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultResult:
    """One planted fault: ``found`` when each of its rules said ``failed`` about the target."""

    fault: str
    claim: str
    found: bool
    reasons: tuple[str, ...]


def choose(scene: Scene, root: Path) -> tuple[Fault, str, Injection] | None:
    """Choose a fault that would change something of what stands now; ``None`` if nothing does."""
    host = Host(root, scene.live.hierarchy, scene.live.value.run_id)
    able = []
    for fault in PLANTED:
        for name, claim in scene.present().items():
            injection = Injection(fault=fault.id, targets=(claim.cgroup,))
            if claim.isolation is fault.aims_at and _able(host, injection):
                able.append((fault, name, injection))
    if not able:
        return None
    fault, name, injection = scene.model.dice.choice(able)
    if fault.load is not None:
        # The fault shows only where a task makes use of it.
        scene.live.spawn(name, Workload(kind=fault.load))
    return fault, name, injection


def _able(host: Host, injection: Injection) -> bool:
    try:
        prepared(host, injection)
    except (InputError, HostUnsupportedError):
        return False
    return True


def reported(fault: Fault, claim: str, verdicts: tuple[Verdict, ...]) -> bool:
    """Return whether each rule of the fault failed about the target."""
    failed = {verdict.rule for verdict in verdicts if verdict.outcome is Outcome.FAILED and verdict.subject == claim}
    return set(fault.rules) <= failed


def result(fault: Fault, claim: str, verdicts: tuple[Verdict, ...]) -> FaultResult:
    """Return what the verdicts of a window say about the fault that was planted in it."""
    return FaultResult(
        fault=fault.id,
        claim=claim,
        found=reported(fault, claim, verdicts),
        reasons=tuple(f"{v.rule} {v.outcome}: {v.reason}" for v in verdicts if v.subject == claim),
    )


def explained(scene: Scene, fault: Fault, claim: str) -> set[tuple[str, str]]:
    """Return which verdicts a fault explains: its rules about its target, and what the target does to others."""
    consequences = fault.consequences or ()
    found = {(rule, claim) for rule in (*fault.rules, *consequences)}
    if "exclusive-cpus" in consequences:
        own = (name for name, one in scene.claims.items() if one.isolation is Isolation.CONTAINER)
        found |= {("exclusive-cpus", name) for name in own}
    return found
