"""A saved run, judged again: what ``pinproof judge`` says of it.

``result.json`` is compared with the evidence, never trusted.
The rules see claims and evidence (:func:`validators.registry.judge`). A directory can lack more than these show: claims
that were taken out, windows that are missing, files of another run. Each of them is a verdict here, so that what asks
for a run by :func:`judge_run` or :func:`judge_saved` is told what the command line is told.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from toolkit import presence
from toolkit.model.evidence import Evidence
from toolkit.model.result import Result, make_result, with_stages, with_verdicts
from toolkit.model.verdict import Outcome, Verdict, worst
from toolkit.session.one_run import OneWatch, facts_that_differ, not_of_one, of_one_run
from toolkit.session.windows.gone import GONE
from toolkit.session.windows.sums import Sums
from toolkit.store import StoredRun, load_result, load_run, reread, stage_paths, window_paths
from toolkit.text.wording import first_lines
from toolkit.timeline.ran import Asked
from validators.registry import judge_and_ask
from validators.rules import applied, cpuset_containment, evidence_health

ABOUT_EVERY_CLAIM = (applied.ID, cpuset_containment.ID)
"""Rules whose subjects are all claims, and nothing else."""
MAX_NAMED = 5
"""Claims, windows or disagreements that are named one by one."""


class Judged(NamedTuple):
    """A run directory, judged again.

    :param run: of several windows the last. :param ran: what its tasks ran, by the timeline.
    :param notes: where a ``result.json`` differs from its evidence, a line each, with the file.
    """

    result: Result
    run: StoredRun
    ran: Asked
    notes: tuple[str, ...]


def judge_run(run: StoredRun) -> Judged:
    """Judge one window by its claims, its evidence and what its other files say.

    A new rule is not noted: the run may be older than the rule. Claims that were taken out are undecided, and so are
    files that are not of one run.
    """
    verdicts, ran = judge_and_ask(run.claims, run.evidence)
    now = make_result(run.evidence, verdicts, run.judged_digests, unknown=ran.unknown)
    found = [] if run.result is None else disagreements(run.result, now)
    result = _of_one(_with_lost(now, _lost_of_run(run)), of_one_run(run, now))
    return Judged(result, run, ran, _notes(run.path, found))


def judge_saved(path: Path) -> Judged:
    """Judge a run directory, with the stages before the last.

    One of several windows is judged window by window, each forgotten before the next is read.

    :raises InputError: as :func:`toolkit.store.load_run`.
    """
    windows = window_paths(path) if presence.is_dir(path) else {}
    last = _judge_windows(path, windows) if windows else judge_run(load_run(path))
    runs = sorted(map(load_run, stage_paths(path)), key=lambda one: one.evidence.start_monotonic_ns)
    before = [judge_run(one) for one in runs]
    notes = (*last.notes, *(note for one in before for note in one.notes))
    result = with_stages(last.result, [(one.run.path.name, one.result) for one in before])
    return last._replace(result=result, notes=notes)


class Shown(NamedTuple):
    """The part of a run that is shown as it went on. :param which: of several windows or stages; empty: it is all."""

    judged: Judged
    which: str


def shown_of(found: Judged) -> Shown:
    """Return one window of a run with its own verdicts: the worst of several that is still kept, else the last.

    What a run comes to has the verdicts of all its windows and stages: their moments are not of one window.
    """
    own = found.run
    windows = found.result.windows
    if windows is not None and windows.count > 1:
        kept = window_paths(own.path.parent)
        number = next((one.number for one in windows.worst if one.number in kept), max(kept))
        run = own if kept[number] == own.path else load_run(kept[number])
        return Shown(judge_run(run), f"window {number} of {windows.count}, {run.evidence.started_at}")
    stages = len(stage_paths(own.path)) if presence.is_dir(own.path) else 0
    return Shown(judge_run(own), f"the last of {stages + 1} stages" if stages else "")


def parts_of(found: Judged) -> Iterator[Shown]:
    """Yield each window of a run that is kept, or each stage of it, in their order, with its own verdicts.

    One is read after the other: what a caller does not keep is forgotten.
    """
    own = found.run
    windows = found.result.windows
    if windows is not None and windows.count > 1:
        for number, folder in window_paths(own.path.parent).items():
            yield Shown(judge_run(load_run(folder)), f"window {number} of {windows.count}")
        return
    paths = stage_paths(own.path) if presence.is_dir(own.path) else []
    for run in sorted(map(load_run, paths), key=lambda one: one.evidence.start_monotonic_ns):
        yield Shown(judge_run(run), run.path.name)
    yield Shown(judge_run(own), "the last stage" if paths else "")


def _judge_windows(path: Path, windows: dict[int, Path]) -> Judged:
    sums, promised, watch, misfits = Sums(), set[str](), OneWatch(), list[str]()
    notes: list[str] = []
    for number, folder in windows.items():
        run = load_run(folder)
        promised |= _promised(run)
        misfits += watch.add(number, run)
        one = judge_run(run)
        notes += one.notes
        sums.add(number, one.result, one.ran.rows)
    now = reread(sums.result())
    saved = load_result(path) if os.path.lexists(path / "result.json") else None
    found = [] if saved is None else disagreements(saved, now)
    misfits += [] if saved is None else facts_that_differ(saved, now)
    missing = sorted(set(range(1, max(windows) + 1)) - set(windows))
    lacking = max(0, (saved.windows.count if saved is not None and saved.windows is not None else 0) - len(windows))
    notes += _notes(path, found)
    if missing or lacking:
        whole = _incomplete(now, missing, max(lacking, len(missing)))
    else:
        whole = _with_lost(now, () if saved is None else _lost(_subjects(saved), promised))
    return Judged(_of_one(whole, misfits), run, one.ran, tuple(notes))


def _of_one(result: Result, found: Iterable[str]) -> Result:
    """Add a verdict that is undecided where parts do not fit."""
    verdict = not_of_one(found)
    return result if verdict is None else with_verdicts(result, (*result.verdicts, verdict))


def _notes(path: Path, found: list[str]) -> tuple[str, ...]:
    """Return lines about a ``result.json`` that differs from its evidence."""
    return tuple(f"{path / 'result.json'}: {text}" for text in first_lines(found, MAX_NAMED))


def _incomplete(result: Result, missing: list[int], count: int) -> Result:
    """Add a verdict that is undecided: missing windows must not count as passed."""
    named = f" ({', '.join(map(str, missing[:MAX_NAMED]))}{', ...' if len(missing) > MAX_NAMED else ''})"
    verdict = Verdict(
        rule=evidence_health.ID,
        subject="windows",
        outcome=Outcome.UNDECIDED,
        reason=f"{count} of the watched windows are missing{named if missing else ''}",
        measures={"windows_missing_count": count},
    )
    return with_verdicts(result, (*result.verdicts, verdict))


def _promised(run: StoredRun) -> set[str]:
    """Return the names of all claims of a run, also of those that came while it went on or right after it."""
    changed = (change.claim for change in run.evidence.changed)
    return {claim.name for claim in (*run.claims.claims, *changed, *run.evidence.later)}


def _lost_of_run(run: StoredRun) -> tuple[str, ...]:
    """Return the names that the evidence or the result have, and the claims have not."""
    said = _subjects(run.result) if run.result is not None else ()
    return _lost([*said, *_named(run.evidence)], _promised(run))


def _lost(said: Iterable[str], promised: set[str]) -> tuple[str, ...]:
    """Return the names without a promise, in order."""
    return tuple(sorted(set(said) - promised - {GONE}))


def _subjects(result: Result) -> Iterable[str]:
    """Return the claims that a result speaks of."""
    return (verdict.subject for verdict in result.verdicts if verdict.rule in ABOUT_EVERY_CLAIM)


def _with_lost(result: Result, names: tuple[str, ...]) -> Result:
    """Add a verdict that is undecided: what was promised to a claim that was taken out was not judged."""
    if not names:
        return result
    named = ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
    verdict = Verdict(
        rule=evidence_health.ID,
        subject="claims",
        outcome=Outcome.UNDECIDED,
        reason=f"claims.json lacks claims that evidence.json or result.json name: {named}",
        measures={"claims_missing_count": len(names)},
    )
    return with_verdicts(result, (*result.verdicts, verdict))


def _named(evidence: Evidence) -> Iterable[str]:
    """Yield the claim of every row that is one claim's."""
    yield from (row.claim for row in evidence.cpu_use)
    yield from (row.claim for row in evidence.usage_bins)
    yield from (row.claim for row in evidence.thread_masks)
    yield from (row.claim for row in evidence.bandwidth)
    yield from (row.claim for row in evidence.ended_use)
    yield from (row.claim for row in evidence.transitions)
    yield from (row.claim for row in evidence.coverage.scan_gaps)


def disagreements(saved: Result, now: Result) -> list[str]:
    """Return where saved verdicts differ from those that the evidence gives."""
    recorded = {(verdict.rule, verdict.subject): verdict for verdict in saved.verdicts}
    today = {(verdict.rule, verdict.subject): verdict for verdict in now.verdicts}
    known = {rule for rule, _ in recorded}
    found = []
    for key, verdict in today.items():
        before = recorded.get(key)
        name = f"{verdict.rule} {verdict.subject}"
        if before is not None and before.outcome is not verdict.outcome:
            found.append(f"{name} is saved as {before.outcome}, its evidence gives {verdict.outcome}: {verdict.reason}")
        elif before is None and verdict.rule in known:
            found.append(f"{name} is missing, its evidence gives {verdict.outcome}: {verdict.reason}")
    found += [
        f"{rule} {subject} is saved as {recorded[rule, subject].outcome}, its evidence gives no such verdict"
        for rule, subject in recorded
        if (rule, subject) not in today
    ]
    if saved.outcome is not worst(verdict.outcome for verdict in saved.verdicts):
        found.append(f"the outcome is saved as {saved.outcome}, which is not the worst of its verdicts")
    for name in ("coverage", "environment", "started_at", "duration_s", "windows"):
        if getattr(saved, name) != getattr(now, name):
            found.append(f"{name} is not that of evidence.json")
    return found
