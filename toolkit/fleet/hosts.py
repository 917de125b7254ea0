"""Whose each report is, which of them count, and what one host comes to."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from toolkit.fleet.answer import Node, Source, place
from toolkit.fleet.reading import UNKNOWN, Recorded, Report, seconds_of
from toolkit.fleet.waiving import Waiving
from toolkit.model.node_record import NodeOutcome
from toolkit.model.verdict import Outcome, rank
from toolkit.text.wording import count, listed

AHEAD_S = 3600.0
"""A result that ended later than now by more says nothing of its age."""
DAY_S = 86_400.0
RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host with what is known of it. :param reports: those that count."""

    row: Node
    reports: tuple[Report, ...] = ()


@dataclass(slots=True)
class Gathered:
    """All that was read; equal parts of thousands of reports are kept once."""

    reports: list[Report] = field(default_factory=list)
    records: list[Recorded] = field(default_factory=list)
    _kept: dict[Any, Any] = field(default_factory=dict)

    def add(self, one: Report | Recorded) -> None:
        """Take one more."""
        if isinstance(one, Recorded):
            self.records.append(one)
            return
        same = self._same
        self.reports.append(
            replace(
                one,
                facts=same(tuple(map(same, one.facts))),
                judged=same(one.judged),
                scenarios=same(one.scenarios),
                blind_spots=same(one.blind_spots),
                keys=same(one.keys),
                hardware=same(one.hardware),
                software=same(one.software),
                kernel=same(one.kernel),
            )
        )

    def _same(self, value: Any) -> Any:
        return self._kept.setdefault(value, value)


def hosts_of(
    gathered: Gathered, expected: Collection[str] | None, now_s: float, max_age_s: float, waiving: Waiving
) -> list[Host]:
    """Return every host that is expected, or that something was read of, by name."""
    by_folder = {one.folder: one for one in gathered.records}
    newest = _newest((one.record.host, one) for one in gathered.records)
    own = {id(report): _host(report, by_folder, expected or ()) for report in gathered.reports}
    called, unclear = _one_name(set(own.values()) | newest.keys(), newest.keys() if expected is None else expected)
    newest = _newest((called.get(name, name), one) for name, one in newest.items())
    reports: dict[str, list[Report]] = defaultdict(list)
    for report in gathered.reports:
        host = called.get(own[id(report)], own[id(report)])
        reports[host].append(waiving.of(report, host))
    names = sorted({*reports, *newest, *(expected or ())})
    wanted = frozenset(names if expected is None else expected)
    hosts = [_one(name, name in wanted, reports.get(name, []), newest.get(name), now_s, max_age_s) for name in names]
    return [
        host if host.row.host not in unclear
        else replace(host, row=replace(host.row, notes=(*host.row.notes, unclear[host.row.host])))
        for host in hosts
    ]  # fmt: skip


def _one_name(names: Collection[str], inventory: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Find hosts that the inventory calls otherwise: ``worker-1`` and ``worker-1.example.com`` are one node where one
    host of the inventory has that first label, and one name besides it.

    :param names: that reports and records give.
    :returns: name -> the inventory's; and each name of which it is not clear -> why.
    """
    known = frozenset(inventory)
    by_label: dict[str, list[str]] = defaultdict(list)
    for name in sorted(known.union(names)):
        by_label[_first_label(name)].append(name)
    called, unclear = dict[str, str](), dict[str, str]()
    for label, same in by_label.items():
        # Two names are of one node if one of them is the label alone: of two domains there are two nodes.
        may_be = {name: [other for other in same if other != name and label in (name, other)] for name in same}
        for name in same:
            hosts = [other for other in may_be[name] if other in known]
            if name in known or not hosts:
                continue
            if len(may_be[name]) == 1 and len(may_be[hosts[0]]) == 1:
                called[name] = hosts[0]
                continue
            rivals = [other for other in may_be[hosts[0]] if other != name] if len(hosts) == 1 else []
            more = f", and so may {listed(rivals)}" if rivals else ""
            unclear[name] = f"it may be {' or '.join(may_be[name])}{more}: it is counted by itself"
    return called, unclear


def _first_label(name: str) -> str:
    """Return the first label of a host's name; of an address all of it."""
    first = name.partition(".")[0]
    return name if not first or first.isdigit() or ":" in name else first


def _newest(records: Iterable[tuple[str, Recorded]]) -> dict[str, Recorded]:
    """Return the newest record of each host. :param records: each with its host's name."""
    found: dict[str, Recorded] = {}
    for host, one in records:
        if host not in found or (_recorded_s(one) or 0.0) >= (_recorded_s(found[host]) or 0.0):
            found[host] = one
    return found


def _host(report: Report, by_folder: Mapping[str, Recorded], expected: Collection[str]) -> str:
    """Return whose a report is: by the record that lies above it, a folder of an expected name, or its own word."""
    folder = os.path.dirname(report.path)  # noqa: PTH120 names, not places
    for _ in report.folders:
        if folder in by_folder:
            return by_folder[folder].record.host
        folder = os.path.dirname(folder)  # noqa: PTH120
    named = next((one for one in report.folders if one in expected), None)
    return named or report.node or (report.folders[1] if len(report.folders) > 1 else report.folders[0]) or report.path


def _recorded_s(one: Recorded) -> float | None:
    return seconds_of(one.record.ended_at or one.record.started_at)


def _one(
    host: str, expected: bool, reports: Sequence[Report], recorded: Recorded | None, now_s: float, max_age_s: float
) -> Host:
    sources, chosen = _sources(reports, recorded, now_s, max_age_s)
    notes = tuple(
        dict.fromkeys(note for note in (*_notes(reports, chosen), *(recorded.record.notes if recorded else ())))
    )
    if not sources:
        return Host(
            row=Node(host=host, outcome=NodeOutcome.NEVER, cause="nothing was ever read of it", expected=expected)
        )
    counting = [one for one in sources if one.counts]
    if counting:
        # Of two that say the same the evidence says why.
        first = min(counting, key=lambda one: (place(one.outcome), one.kind == RECORD))
        outcome, cause = first.outcome, first.cause
        if outcome is NodeOutcome.PASSED and len(counting) > 1:
            said = dict.fromkeys(one.cause for one in counting if one.kind != RECORD)
            cause = "; ".join(said) or cause
    else:
        last = max(sources, key=lambda one: one.at)
        age = (now_s - (seconds_of(last.at) or now_s)) / DAY_S
        outcome, cause = (
            NodeOutcome.STALE,
            f"the last that was heard is {age:.1f} days old: {last.outcome}, {last.cause}",
        )
    known = max((one for one in chosen or reports if not one.broken), key=lambda one: one.ended_s or 0.0, default=None)
    return Host(
        row=Node(
            host=host,
            outcome=outcome,
            cause=cause,
            expected=expected,
            at=max(one.at for one in sources),
            machine=known.machine if known else "",
            boot_id=known.boot_id if known else "",
            hardware=label(known) if known else "",
            software=known.software if known else "",
            pinproof=known.pinproof if known else (recorded.record.pinproof or "" if recorded else ""),
            not_passed=_not_passed(chosen),
            sources=tuple(sources),
            notes=notes,
        ),
        reports=tuple(chosen),
    )


def label(report: Report) -> str:
    """Name a hardware class so that two of one name are two: ``epyc-9454-2s-96c-smt-nps4 1a6da3``."""
    return UNKNOWN.name if not report.hardware.hash else f"{report.hardware.name} {report.hardware.hash[:6]}"


def _sources(
    reports: Sequence[Report], recorded: Recorded | None, now_s: float, max_age_s: float
) -> tuple[list[Source], list[Report]]:
    """Return what a row rests on, and the reports that count: the newest of each kind that is new enough.

    A file that cannot be read takes the place of no other: it counts beside it, unless the other is newer.
    """
    sources, chosen = [], []
    named, at_s = "", None
    if recorded is not None:
        at_s = _recorded_s(recorded)
        if recorded.record.path:
            named = os.path.normpath(os.path.join(os.path.dirname(recorded.path), recorded.record.path))  # noqa: PTH118,PTH120
        sources.append(_of_record(recorded, named, reports, at_s, now_s, max_age_s))
    latest: dict[str, Report] = {}
    for report in sorted(reports, key=lambda one: (one.path == named, one.ended_s or 0.0)):
        if not report.broken:
            latest[report.kind] = report
    broken = [one for one in reports if one.broken and (one.path == named or not _older(one, latest.get(one.kind)))]
    for report in sorted((*latest.values(), *broken), key=lambda one: (one.kind, one.path)):
        # Of what a play brought home, the controller's clock says how old it is.
        ended_s = at_s if report.path == named and at_s is not None else report.ended_s
        source = _source(report.kind, report, ended_s, now_s, max_age_s)
        sources.append(source)
        if source.counts:
            chosen.append(report)
    return sources, chosen


def _older(broken: Report, readable: Report | None) -> bool:
    """Say whether a file that cannot be read is of an older run: by the names of the two, which begin with the time."""
    return readable is not None and "" < broken.began < readable.began


def _of_record(
    recorded: Recorded, named: str, reports: Sequence[Report], at_s: float | None, now_s: float, max_age_s: float
) -> Source:
    record = recorded.record
    outcome, cause = record.outcome, record.cause
    found = next((one for one in reports if one.path == named), None)
    if found is not None and found.outcome is NodeOutcome.WAIVED and record.before is None:
        # The job's word is that of its findings; of a gate it may be that of the comparison.
        waivable = outcome in (NodeOutcome.FAILED, NodeOutcome.UNDECIDED)
        outcome, cause = (NodeOutcome.WAIVED, found.cause) if waivable else (outcome, cause)
    if outcome is NodeOutcome.PASSED:
        if not record.path:
            outcome, cause = NodeOutcome.UNDECIDED, f"its record says passed, and names no evidence ({record.cause})"
        elif found is None:
            outcome, cause = NodeOutcome.UNDECIDED, f"its record says passed by {record.path}, which is not there"
        elif record.sha256 and found.sha256 != record.sha256:
            outcome, cause = NodeOutcome.UNDECIDED, f"{record.path} is not the file that its record names (SHA-256)"
    if at_s is None:
        outcome = min(outcome, NodeOutcome.UNDECIDED, key=place)
        cause = f"its record does not say when: {record.started_at[:40]!r}"
    fresh = at_s is None or now_s - at_s <= max_age_s
    return Source(kind=RECORD, outcome=outcome, cause=cause, at=_utc(at_s), path=recorded.path, counts=fresh)


def _source(kind: str, report: Report, ended_s: float | None, now_s: float, max_age_s: float) -> Source:
    outcome, cause = report.outcome, report.cause
    if not report.broken and ended_s is None:
        outcome = min(outcome, NodeOutcome.UNDECIDED, key=place)
        cause = (
            f"it does not say when it began: {report.started_at[:40]!r}" if outcome is NodeOutcome.UNDECIDED else cause
        )
    elif ended_s is not None and ended_s - now_s > AHEAD_S and place(outcome) > place(NodeOutcome.UNDECIDED):
        outcome = NodeOutcome.UNDECIDED
        cause = f"by its clock it ended {(ended_s - now_s) / 3600:.1f} hours from now, so nothing says how old it is"
    fresh = ended_s is None or now_s - ended_s <= max_age_s
    return Source(kind=kind, outcome=outcome, cause=cause, at=_utc(ended_s), path=report.path, counts=fresh)


def _utc(at_s: float | None) -> str:
    if at_s is None:
        return ""
    try:
        return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""


def _not_passed(reports: Iterable[Report]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for report in reports:
        for rule, outcome in report.judged:
            if outcome is not Outcome.PASSED and (rule not in found or rank(outcome) < rank(found[rule])):
                found[rule] = outcome
    return dict(sorted(found.items()))


def _notes(reports: Sequence[Report], chosen: Sequence[Report]) -> list[str]:
    notes = [note for report in chosen for note in report.notes]
    aside = [report for report in reports if not any(report is one for one in chosen)]
    notes += [f"left aside, a newer one can be read: {report.cause}" for report in aside if report.broken]
    older = sum(not report.broken for report in aside)
    if older:
        notes.append(f"{count(older, 'older report')} of it {'is' if older == 1 else 'are'} left aside")
    names = sorted({report.node for report in chosen if report.node})
    if len(names) > 1:
        notes.append(f"its reports call it {', '.join(names)}")
    return notes
