"""The index of a session, put together when its scenarios have been run: ``session.json``. Pure, but for saving it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolkit.disk import write_atomically
from toolkit.errors import InputError
from toolkit.model.blind_spots import kind_of_spot
from toolkit.model.claims import ClaimSet
from toolkit.model.conformance import ControlResult, ScenarioResult
from toolkit.model.evidence import Environment
from toolkit.model.identity import Identity, digest
from toolkit.model.scenario import Scenario
from toolkit.model.serde import to_data, to_lean_json
from toolkit.model.session import FILE, MAX_REASON, Session, SessionControl, SessionScenario, SessionVerdict
from toolkit.model.session_text import session_text
from toolkit.model.verdict import Measure, Outcome, Verdict, worst
from validators.registry import measure_of

PROMISES = ("cpus", "isolation", "mems", "quota_us", "period_us", "burst_us", "weight", "shares", "memory_bytes")
DIGITS = 6
"""Significant digits of a measure in the index."""


def promises_digest(scenario: Scenario, claims: ClaimSet) -> str:
    """Return a hash of what was asked for and of what was promised; where cgroups lie is no part of it.

    Nor is what a scenario leaves as it is: a later pinproof, whose scenarios can say more, gives the same hash.
    """
    asked = json.loads(to_lean_json(scenario))
    promised = []
    for claim in sorted(claims.claims, key=lambda one: one.name):
        data = to_data(claim)
        assert isinstance(data, dict)
        promised.append([claim.name, *(data[name] for name in PROMISES)])
    return digest({name: value for name, value in asked.items() if name not in ("title", "shows")}, promised)


def session_of(
    name: str,
    results: Sequence[ScenarioResult],
    environment: Environment,
    *,
    started_at: str,
    duration_s: float,
    complete: bool,
) -> Session:
    """Put the index together. :param name: the session's. :param environment: of the machine that all were run on."""
    return Session(
        session=name,
        outcome=worst(result.outcome for result in results),
        complete=complete,
        started_at=started_at,
        duration_s=round(duration_s, 1),
        pinproof=environment.pinproof,
        kernel=environment.kernel,
        cmdline=environment.cmdline,
        cgroup=environment.cgroup,
        identity=environment.identity or Identity(),
        counts=dict(Counter(str(result.outcome) for result in results)),
        scenarios=tuple(_scenario(result) for result in results if result.outcome is not Outcome.SKIPPED),
        blind_spots=dict(Counter(kind for result in results for kind in set(map(kind_of_spot, result.blind_spots)))),
        files={name: digest for result in results for name, digest in result.files.items()},
        skipped={result.name: _short(result.reason) for result in results if result.outcome is Outcome.SKIPPED},
    )


def save_session(folder: Path, session: Session) -> Path:
    """Write the index, last of all that belongs to the session.

    :raises InputError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(folder), error.strerror or str(error), "a directory that can be written") from None
    return write_atomically(folder / FILE, session_text(session, measure_of))


def _scenario(result: ScenarioResult) -> SessionScenario:
    count = Counter(verdict.outcome for verdict in result.verdicts)
    passed = [verdict for verdict in result.verdicts if verdict.outcome is Outcome.PASSED]
    return SessionScenario(
        name=result.name,
        catalogue=result.catalogue,
        outcome=result.outcome,
        reason="" if result.outcome is Outcome.PASSED else _short(result.reason),
        promises=result.promises,
        passed=dict(Counter(verdict.rule for verdict in passed)),
        skipped=count[Outcome.SKIPPED],
        others=tuple(
            SessionVerdict(rule=one.rule, subject=one.subject, outcome=one.outcome, reason=_short(one.reason))
            for one in result.verdicts
            if one.outcome in (Outcome.FAILED, Outcome.UNDECIDED)
        ),
        measures=gated_measures(result.verdicts),
        controls=tuple(map(_control, result.controls)),
        repeated=len(result.repeated),
        run=result.packed,
    )


def _control(control: ControlResult) -> SessionControl:
    return SessionControl(
        name=control.name,
        subject="" if control.subject == control.target else control.subject,
        outcome=control.outcome,
        reason="" if control.outcome is Outcome.PASSED else _short(control.reason),
        run=control.packed,
    )


def gated_measures(verdicts: Sequence[Verdict]) -> dict[str, dict[str, int | float]]:
    """Return the measures that gates compare: ``rule subject`` -> name -> value; none of what was skipped."""
    found: dict[str, dict[str, int | float]] = {}
    for verdict in verdicts:
        if verdict.outcome is Outcome.SKIPPED:
            continue
        numbers = _numbers(verdict.rule, verdict.measures)
        if numbers:
            found[f"{verdict.rule} {verdict.subject}"] = numbers
    return found


def _numbers(rule: str, measures: Mapping[str, Measure]) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    for name, value in measures.items():
        kind = measure_of(rule, name)
        if kind is not None and kind.gated and isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
    return found


def _short(text: str) -> str:
    return text if len(text) <= MAX_REASON else text[: MAX_REASON - 3] + "..."
