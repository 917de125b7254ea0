"""Folders of results as plays bring them home: a recorded session of a real machine, under other names."""

from __future__ import annotations

import functools
import hashlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from toolkit.model.identity import HardwareClass
from toolkit.model.node_record import NodeOutcome, NodeRecord
from toolkit.model.serde import to_lean_json
from toolkit.model.session import Session, SessionScenario, SessionVerdict
from toolkit.model.verdict import Outcome
from toolkit.session.index import save_session
from toolkit.store import load_session

RECORDED = Path(__file__).resolve().parents[3] / "data/sessions/two-cpus/session.json"
LARGE = HardwareClass(name="epyc-9454-2s-96c-smt-nps4", hash="ab" * 8)
DAY_S = 86_400.0


@functools.cache
def recorded() -> Session:
    """Return the recorded session, as if all its scenarios had been decided."""
    session = load_session(RECORDED)
    scenarios = tuple(
        replace(
            one,
            outcome=Outcome.PASSED,
            reason="",
            passed=dict(Counter(one.passed) + Counter(other.rule for other in one.others)),
            others=(),
        )
        for one in session.scenarios
    )
    return replace(session, outcome=Outcome.PASSED, scenarios=scenarios)


def at(age_s: float = 0.0) -> str:
    """Return a time before now."""
    return datetime.fromtimestamp(time.time() - age_s, UTC).isoformat(timespec="milliseconds")


def session(
    node: str,
    *,
    age_s: float = 600.0,
    fails: str = "",
    hardware: HardwareClass | None = None,
    measured: Callable[[float], float] | None = None,
    cmdline: str | None = None,
    kernel: str | None = None,
    scenarios: int | None = None,
    **identity: Any,
) -> Session:
    """Return a session of a node. :param fails: the rule that failed in its first scenario."""
    base = recorded()
    stated = {"node": node, "machine": hashlib.sha256(node.encode()).hexdigest()[:16], "boot_id": f"boot of {node}"}
    identity_of = replace(base.identity, **{**stated, "hardware": hardware or base.identity.hardware, **identity})
    done = base.scenarios if scenarios is None else base.scenarios[:scenarios]
    first = done[0]
    if fails:
        bad = SessionVerdict(rule=fails, subject="db/main", outcome=Outcome.FAILED, reason="ran outside CPU 1")
        first = replace(first, outcome=Outcome.FAILED, others=(bad,))
    if measured is not None:
        first = measured_so(first, measured)
    return replace(
        base,
        started_at=at(age_s + base.duration_s),
        identity=identity_of,
        outcome=Outcome.FAILED if fails else Outcome.PASSED,
        scenarios=(first, *done[1:]),
        cmdline=base.cmdline if cmdline is None else cmdline,
        kernel=kernel or base.kernel,
    )


def measured_so(scenario: SessionScenario, change: Callable[[float], float]) -> SessionScenario:
    """Return it with one measure changed: how long db/main's CPU was used by system tasks."""
    (about,) = (name for name in scenario.measures if name == "exclusive-cpus db/main")
    numbers = scenario.measures[about]
    return replace(
        scenario, measures={**scenario.measures, about: {**numbers, "system_ns": change(numbers["system_ns"])}}
    )


def save(results: Path, host: str, saved: Session, job: str = "conformance-1") -> Path:
    """Save a session as a play does; return its index."""
    return save_session(results / host / job / "runs" / saved.session, saved)


def record(
    results: Path, host: str, outcome: NodeOutcome, brought: Path | None = None, age_s: float = 500.0, **more: Any
) -> Path:
    """Write the controller's record of a host. :param brought: the evidence that it names."""
    folder = results / host
    folder.mkdir(parents=True, exist_ok=True)
    named = {} if brought is None else {
        "path": str(brought.relative_to(folder)),
        "sha256": hashlib.sha256(brought.read_bytes()).hexdigest(),
    }  # fmt: skip
    stated = {"cause": "the cause", "playbook": "conformance", "job": "conformance-1", "started_at": at(age_s + 60)}
    value = NodeRecord(host=host, outcome=outcome, **{**stated, "ended_at": at(age_s), **named, **more})
    text = to_lean_json(value)
    (folder / "record.json").write_text('{"schema":"pinproof.record/1",' + text[1:])
    return folder / "record.json"
