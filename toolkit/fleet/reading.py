"""What lies below folders of results, and what each file of it says of a node: nothing is lost, and nothing is judged.

Four kinds of files are read: the index of a session (``session.json``), the result of a run or of a watch
(``result.json``), a bundle of either (``pinproof bundle``), and the controller's record of a host (``record.json``).
Whatever stands in such a place and cannot be read is a report, too: of a node that is undecided, with the error as its
cause.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from toolkit.bundle import EXPECTED, MANIFEST, Bundle, read_bundle
from toolkit.errors import InputError
from toolkit.fleet.facts import Facts, of_environment, of_session
from toolkit.model.blind_spots import kind_of_spot
from toolkit.model.identity import HardwareClass, Identity, software_class
from toolkit.model.node_record import RECORD_FILE, NodeOutcome, NodeRecord
from toolkit.model.result import Result
from toolkit.model.serde import MAX_FILE_BYTES
from toolkit.model.session import FILE, Session
from toolkit.model.verdict import Outcome, Verdict, rank, worst
from toolkit.packed import SUFFIX, is_packed
from toolkit.regular_file import read_regular
from toolkit.session.index import gated_measures
from toolkit.store import parse_record, parse_result, parse_session
from toolkit.text.names import from_path, printable
from toolkit.text.wording import count

MAX_DEPTH = 16
RESULT_FILE = "result.json"
EVIDENCE_FILE = "evidence.json"
BUNDLE_SUFFIX = f".bundle{SUFFIX}"
"""The end of the name that `pinproof bundle` gives unless told otherwise."""
_TAR_HEADER_BYTES, _TAR_NAME_BYTES = 512, 100
_RUN_ID = re.compile(r"(\d{8}-\d{6})-(.+)-[0-9a-f]{6}", re.ASCII)
UNKNOWN = HardwareClass(name="unknown", hash="")
FINDINGS = 50
"""Of one file as many verdicts that did not pass are kept, the worst first; each rule's outcome is kept anyway."""

Outcomes = tuple[tuple[str, Outcome], ...]
Key = tuple[str, str, str, str]
"""Of a measure: scenario, promises, ``rule subject``, name."""


class _Origin(TypedDict):
    node: str
    machine: str
    boot_id: str
    session: str
    hardware: HardwareClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A place that something is to be read at. :param error: why it cannot be."""

    root: Path
    path: Path
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A verdict that did not pass, or a control that was not caught."""

    scenario: str
    rule: str
    subject: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one session or result says of the node that it was made on.

    :param kind: ``conformance``, ``watch``, or the name of the scenario that was run.
    :param folders: between the folder of results and the file, the outermost first.
    :param ended_s: since 1970, by the node's own clock; ``None``: it does not say.
    :param judged: rule -> its worst outcome; rules that were skipped are not in it.
    :param keys, values: the measures that gates compare, of verdicts of every outcome.
    :param broken: the file could not be read; ``cause`` says why.
    :param complete: all that fits was run, and every finding is among ``findings``.
    :param began: as the run's name says it, in the node's own zone; empty: it does not.
    """

    path: str
    folders: tuple[str, ...]
    kind: str
    outcome: NodeOutcome
    cause: str
    sha256: str = ""
    broken: bool = False
    complete: bool = True
    started_at: str = ""
    began: str = ""
    ended_s: float | None = None
    pinproof: str = ""
    kernel: str = ""
    node: str = ""
    machine: str = ""
    boot_id: str = ""
    session: str = ""
    hardware: HardwareClass = UNKNOWN
    software: str = ""
    facts: Facts = ()
    judged: Outcomes = ()
    scenarios: Outcomes = ()
    findings: tuple[Finding, ...] = ()
    blind_spots: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    values: array[float] = field(default_factory=lambda: array("d"))
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A controller's record, and where it lies."""

    path: str
    folder: str
    record: NodeRecord


def find(roots: Iterable[Path]) -> Iterator[Found]:
    """Yield what is to be read below folders of results, or at the files that are named.

    No link is followed. A session or run is one place: its windows, stages and packed runs belong to it.
    """
    for root in roots:
        known = root.name in (FILE, RESULT_FILE, RECORD_FILE) or is_packed(root)
        if known and not os.path.isdir(root):  # noqa: PTH112 of a hidden one, too
            yield Found(root=root.parent, path=root)
        else:
            yield from _below(root, root, 0)


def _below(root: Path, folder: Path, depth: int) -> Iterator[Found]:
    try:
        with os.scandir(folder) as entries:
            kinds = {entry.name: (entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False))
                     for entry in entries}  # fmt: skip
    except OSError as error:
        yield Found(root=root, path=folder, error=error.strerror or str(error))
        return
    found = {name: is_folder for name, (is_folder, _) in kinds.items()}
    if RECORD_FILE in found:
        yield Found(root=root, path=folder / RECORD_FILE)
    packed_runs = FILE in found or RESULT_FILE in found
    for name, (is_folder, plain) in sorted(kinds.items()):
        if not is_folder and _is_bundle(folder / name, plain=plain, by_name=packed_runs):
            yield Found(root=root, path=folder / name)
    for name in (FILE, RESULT_FILE):
        if name in found:
            yield Found(root=root, path=folder / name)
            return
    if EVIDENCE_FILE in found or any(name.startswith("window-") and found[name] for name in found):
        yield Found(root=root, path=folder / RESULT_FILE, error="the run has no result: it did not end")
        return
    if depth >= MAX_DEPTH:
        yield Found(root=root, path=folder, error=f"folders lie deeper than {MAX_DEPTH}: what is below is not read")
        return
    for name in sorted(found):
        if found[name] and not name.startswith("."):
            yield from _below(root, folder / name, depth + 1)


def _is_bundle(path: Path, *, plain: bool, by_name: bool) -> bool:
    """Say whether a file of a folder is a bundle, or may be one: reading it says what is wrong.

    An archive whose first file is another than a bundle's is a packed run, or nothing of ours.

    :param plain: it is a regular file. :param by_name: its name must say so: packed runs are many.
    """
    if path.name.startswith(".") or not is_packed(path):
        return False
    if by_name or not plain or path.name.endswith(BUNDLE_SUFFIX):
        return path.name.endswith(BUNDLE_SUFFIX)
    try:
        with gzip.open(path) as file:
            head = file.read(_TAR_HEADER_BYTES)
    except (OSError, EOFError, zlib.error):
        return True
    return len(head) < _TAR_HEADER_BYTES or head[:_TAR_NAME_BYTES].rstrip(b"\0") == MANIFEST.encode()


def bundle_at(path: Path) -> Bundle:
    """Read a bundle as a stranger's; whose signature it has is not asked.

    :raises InputError: as :func:`toolkit.bundle.read_bundle`, and where the archive is none.
    """
    bundle = read_bundle(path)
    if bundle is None:
        raise InputError(from_path(path), "no bundle", EXPECTED)
    return bundle


def saved(path: Path) -> Session | Result:
    """Return what a ``session.json``, a ``result.json`` or a bundle says. :raises InputError: it cannot be read."""
    if is_packed(path):
        return _of_bundle(bundle_at(path))
    return _parsed(path.name, _content(path), from_path(path))


def _of_bundle(bundle: Bundle) -> Session | Result:
    name, where = FILE if bundle.manifest.kind == "session" else RESULT_FILE, from_path(bundle.path)
    if name not in bundle.files:
        raise InputError(where, f"no {name} in it: what it is of did not end")
    return _parsed(name, bundle.files[name], f"{where}/{name}")


def _parsed(name: str, content: bytes, where: str) -> Session | Result:
    parse: Callable[[bytes, str], Session | Result] = parse_session if name == FILE else parse_result
    return parse(content, where)


def read(
    place: Found, rejudge: Callable[[Path], tuple[Session | Result, tuple[str, ...]]] | None = None
) -> Report | Recorded:
    """Read one place. Never raises for what is wrong in it.

    :param rejudge: judges the evidence beside a file again, and returns what it comes to, with notes; ``None``: what is
        saved is taken.
    """
    path, folders = from_path(place.path), _folders(place)
    content = b""
    try:
        if place.error and (rejudge is None or place.path.name != RESULT_FILE):
            raise InputError(path, place.error)
        if not place.error:
            content = _content(place.path)
        if place.path.name == RECORD_FILE:
            return Recorded(path=path, folder=from_path(place.path.parent), record=parse_record(content, path))
        bundle = bundle_at(place.path) if is_packed(place.path) else None
        notes: tuple[str, ...] = ()
        if rejudge is not None:
            said, notes = rejudge(place.path)
        elif bundle is not None:
            said = _of_bundle(bundle)
        else:
            said = _parsed(place.path.name, content, path)
        run = place.path.parent.name if bundle is None else bundle.manifest.name
        report = _of_session(said, path) if isinstance(said, Session) else _of_result(said, path, _kind(run))
    except InputError as error:
        return broken(place, str(error), _digest(content))
    return replace(report, folders=folders, sha256=_digest(content), began=_began(run), notes=(*report.notes, *notes))


def _digest(content: bytes) -> str:
    """Return the SHA-256 of what was read; empty: nothing was."""
    return hashlib.sha256(content).hexdigest() if content else ""


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error)) from None


def _folders(place: Found) -> tuple[str, ...]:
    inside = place.path.relative_to(place.root).parts if place.path != place.root else ()
    inside = inside if place.error and place.path.name != RESULT_FILE else inside[:-1]
    return tuple(printable(from_path(part)) for part in (place.root.absolute().name, *inside))


def _kind(run: str) -> str:
    named = _RUN_ID.fullmatch(run)
    return printable(named[2]) if named else "run"


def _began(run: str) -> str:
    named = _RUN_ID.fullmatch(run)
    return named[1] if named else ""


def broken(place: Found, cause: str, sha256: str = "") -> Report:
    """Return the report of what could not be read: of a node that is undecided. :param sha256: of what is there."""
    path = from_path(place.path)
    kind = "conformance" if place.path.name == FILE else _kind(place.path.parent.name)
    return Report(
        path=path,
        folders=_folders(place),
        kind="bundle" if is_packed(place.path) else kind,
        outcome=NodeOutcome.UNDECIDED,
        cause=printable(cause if path in cause else f"{path}: {cause}"),
        began=_began(place.path.parent.name),
        sha256=sha256,
        broken=True,
    )


def seconds_of(text: str) -> float | None:
    """Return a time of ISO 8601 in seconds since 1970; one without a zone is taken as UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _of_session(session: Session, path: str) -> Report:
    judged: dict[str, Outcome] = {}
    findings, keys, values = list[Finding](), list[Key](), array("d")
    for scenario in session.scenarios:
        for rule, number in scenario.passed.items():
            if number > 0:
                judged.setdefault(rule, Outcome.PASSED)
        for other in scenario.others:
            _worse(judged, other.rule, other.outcome)
            findings.append(Finding(scenario=scenario.name, rule=other.rule, subject=other.subject,
                                    outcome=other.outcome, reason=other.reason))  # fmt: skip
        for control in scenario.controls:
            if control.outcome in (Outcome.FAILED, Outcome.UNDECIDED):
                findings.append(Finding(scenario=scenario.name, rule=control.rule, subject=f"control {control.name}",
                                        outcome=control.outcome, reason=control.reason))  # fmt: skip
                _worse(judged, control.rule, control.outcome)
        if scenario.outcome in (Outcome.FAILED, Outcome.UNDECIDED) and not any(
            one.scenario == scenario.name for one in findings
        ):
            findings.append(
                Finding(scenario=scenario.name, rule="", subject="", outcome=scenario.outcome, reason=scenario.reason)
            )
        for about, numbers in scenario.measures.items():
            keys += [(scenario.name, scenario.promises, about, name) for name in numbers]
            values.extend(numbers.values())
    outcome, cause, notes = _outcome_of_session(session, findings)
    return Report(
        path=path,
        folders=(),
        kind="conformance",
        outcome=outcome,
        cause=cause,
        complete=session.complete and len(findings) <= FINDINGS,
        started_at=session.started_at,
        ended_s=_end(session.started_at, session.duration_s),
        pinproof=session.pinproof,
        kernel=session.kernel,
        **_origin(session.identity),
        software=software_class(session.kernel, session.identity),
        facts=of_session(session),
        judged=tuple(judged.items()),
        scenarios=tuple((scenario.name, scenario.outcome) for scenario in session.scenarios),
        findings=_most(findings),
        blind_spots=tuple(session.blind_spots),
        keys=tuple(keys),
        values=values,
        notes=notes,
    )


def _outcome_of_session(session: Session, findings: Sequence[Finding]) -> tuple[NodeOutcome, str, tuple[str, ...]]:
    total = worst(scenario.outcome for scenario in session.scenarios)
    notes = (
        ()
        if session.outcome is total
        else (f"the outcome is saved as {session.outcome}, the worst of its scenarios is {total}",)
    )
    outcome, cause = _outcome(
        worst((total, session.outcome)) if session.scenarios else total, findings, session.scenarios
    )
    if outcome is NodeOutcome.PASSED and not session.complete:
        return NodeOutcome.UNDECIDED, "the session was cut short: not every scenario that fits was run", notes
    if outcome is NodeOutcome.PASSED:
        cause = f"{count(len(session.scenarios), 'scenario')} passed"
    return outcome, cause, notes


def _outcome(outcome: Outcome, findings: Sequence[Finding], judged: Sequence[object]) -> tuple[NodeOutcome, str]:
    if outcome is Outcome.SKIPPED or not judged:
        return NodeOutcome.UNDECIDED, "nothing was judged: everything was skipped"
    first = min(findings, key=lambda one: rank(one.outcome), default=None)
    if outcome is Outcome.PASSED:
        return NodeOutcome.PASSED, ""
    word = NodeOutcome.FAILED if outcome is Outcome.FAILED else NodeOutcome.UNDECIDED
    return word, "no verdict says why" if first is None else said_of(first)


def said_of(finding: Finding) -> str:
    """Write a finding as one sentence."""
    about = " ".join(part for part in (finding.rule, finding.subject) if part)
    place = f"{finding.scenario}: " if finding.scenario else ""
    return f"{place}{about}: {finding.reason}" if about else f"{place}{finding.reason}"


def _of_result(result: Result, path: str, kind: str) -> Report:
    judged: dict[str, Outcome] = {}
    findings = []
    for verdict in result.verdicts:
        if verdict.outcome is not Outcome.SKIPPED:
            _worse(judged, verdict.rule, verdict.outcome)
        if verdict.outcome in (Outcome.FAILED, Outcome.UNDECIDED):
            findings.append(_finding(verdict))
    total = worst(verdict.outcome for verdict in result.verdicts)
    windows = result.windows
    saved = result.outcome
    outcome, cause = _outcome(worst((total, saved)) if judged else total, findings, tuple(judged))
    if outcome is NodeOutcome.PASSED:
        cause = count(sum(one.outcome is Outcome.PASSED for one in result.verdicts), "verdict") + " passed"
        cause += f" in {count(windows.count, 'window')}" if windows is not None else ""
    identity = result.environment.identity or Identity()
    measured = gated_measures(result.verdicts)
    return Report(
        path=path,
        folders=(),
        kind=kind,
        outcome=outcome,
        cause=cause,
        complete=len(findings) <= FINDINGS,
        started_at=result.started_at,
        ended_s=_end(result.started_at, result.duration_s),
        pinproof=result.environment.pinproof,
        kernel=result.environment.kernel,
        **_origin(identity),
        software=software_class(result.environment.kernel, identity),
        facts=of_environment(result.environment),
        judged=tuple(judged.items()),
        scenarios=((kind, worst((total, saved))),) if judged else (),
        findings=_most(findings),
        blind_spots=tuple(dict.fromkeys(map(kind_of_spot, result.coverage.blind_spots))),
        keys=tuple((kind, "", about, name) for about, numbers in measured.items() for name in numbers),
        values=array("d", (value for numbers in measured.values() for value in numbers.values())),
        notes=() if saved is total else (f"the outcome is saved as {saved}, the worst of its verdicts is {total}",),
    )


def _origin(identity: Identity) -> _Origin:
    return {
        "node": identity.node,
        "machine": identity.machine,
        "boot_id": identity.boot_id,
        "session": identity.session,
        "hardware": identity.hardware or UNKNOWN,
    }


def _finding(verdict: Verdict) -> Finding:
    return Finding(
        scenario="", rule=verdict.rule, subject=verdict.subject, outcome=verdict.outcome, reason=verdict.reason[:400]
    )


def _worse(judged: dict[str, Outcome], rule: str, outcome: Outcome) -> None:
    before = judged.get(rule)
    if before is None or rank(outcome) < rank(before):
        judged[rule] = outcome


def _most(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda one: rank(one.outcome))[:FINDINGS])


def _end(started_at: str, duration_s: float) -> float | None:
    begin = seconds_of(started_at)
    return None if begin is None else begin + max(0.0, duration_s)
