"""Sessions for tests of the gate: made up, as `pinproof conformance` would have saved them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from toolkit.fleet.observed import Observed, of_session
from toolkit.model.identity import HardwareClass, Identity
from toolkit.model.session import Session, SessionControl, SessionScenario
from toolkit.model.verdict import Outcome
from toolkit.session.index import save_session

USAGE, DELAY, PERIOD = "usage_cpus", "run_delay_ns", "period_us"
RULE, SUBJECT = "quota-throttling", "load/main"
MEASURES = {USAGE: 0.5, DELAY: 400_000_000, PERIOD: 100_000}
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
CLASS = HardwareClass(name="epyc-9454-2s-96c-smt-nps4", hash="0123456789abcdef")


def scenario(name: str = "quota-050-over", **changes: Any) -> SessionScenario:
    """A scenario that passed."""
    values: dict[str, Any] = {
        "outcome": Outcome.PASSED,
        "promises": f"hash of {name}",
        "passed": {RULE: 2, "evidence-health": 1},
        "measures": {f"{RULE} {SUBJECT}": dict(MEASURES)},
        "controls": (
            SessionControl(name=f"set-quota {SUBJECT} {RULE}", subject=SUBJECT, outcome=Outcome.PASSED, run="x.tar.gz"),
        ),
        "run": f"{name}.tar.gz",
    }
    return SessionScenario(name=name, **{**values, **changes})


def session(at: int = 0, node: str = "node1", *scenarios: SessionScenario, **changes: Any) -> Session:
    """A session. :param at: when it was run, in minutes: it orders the repeats."""
    values: dict[str, Any] = {
        "session": f"s{at}",
        "outcome": Outcome.PASSED,
        "complete": True,
        "started_at": (BEGIN + timedelta(minutes=at)).isoformat(),
        "duration_s": 10.0,
        "pinproof": "0.1.0",
        "kernel": "6.12.0",
        "identity": Identity(node=node, machine=node, hardware=CLASS),
        "counts": {"passed": 1},
        "scenarios": scenarios or (scenario(),),
        "files": {"quota-050-over.tar.gz": "0" * 64},
    }
    return Session(**{**values, **changes})


def measured(one: SessionScenario, **values: float) -> SessionScenario:
    """The same scenario with other measures."""
    return replace(one, measures={f"{RULE} {SUBJECT}": {**MEASURES, **values}})


def observed(at: int = 0, node: str = "node1", *scenarios: SessionScenario, **changes: Any) -> Observed:
    """What a gate reads of a made-up session."""
    return of_session(session(at, node, *scenarios, **changes))


def edited(found: Session, factors: Mapping[str, float]) -> Session:
    """A session whose measures of these names are multiplied."""
    return replace(
        found,
        scenarios=tuple(
            replace(
                one,
                measures={
                    about: {name: value * factors.get(name, 1.0) for name, value in numbers.items()}
                    for about, numbers in one.measures.items()
                },
            )
            for one in found.scenarios
        ),
    )


def saved(folder: Path, found: Session) -> Path:
    """Save a session's index below a folder; returns the session's directory."""
    return save_session(folder / found.session, found).parent
