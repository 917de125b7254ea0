"""One row per node, scenario, rule and subject, as Parquet: the contract for questions that nothing thought of.

The rows are read from the sessions and results themselves, one file at a time; pyarrow writes them (``pip install
'pinproof[fleet]'``), which nothing else of pinproof needs. ``docs/fleet.md`` has every column.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from toolkit.errors import HostUnsupportedError, InputError
from toolkit.fleet import reading
from toolkit.fleet.hosts import Host
from toolkit.fleet.reading import Report
from toolkit.model.result import Result
from toolkit.model.session import Session, SessionScenario
from toolkit.model.verdict import Outcome, worst
from toolkit.session.index import gated_measures
from toolkit.text.names import raw

Row = dict[str, Any]
Said = Callable[[Report], Session | Result]
ROWS_A_GROUP = 20_000
TEXTS = (
    "host", "host_outcome", "machine", "boot_id", "hardware", "hardware_hash", "software", "kernel", "pinproof",
    "session", "kind", "scenario", "promises", "rule", "subject", "outcome", "reason", "control",
)  # fmt: skip
"""Columns of text; beside them are ``at`` (a time in UTC), ``count`` and ``measures``."""


def rows_of(hosts: Iterable[Host], said: Said) -> Iterator[Row]:
    """Yield the rows of all hosts. :param said: reads a report's session or result again.

    A host without a report that counts has one row, with its outcome alone.
    """
    for host in hosts:
        own = {"host": host.row.host, "host_outcome": host.row.outcome.value}
        whole = [report for report in host.reports if not report.broken]
        if not whole:
            yield _row(own, kind="node", outcome=host.row.outcome.value, reason=host.row.cause)
        for report in whole:
            of_report = own | {
                "machine": report.machine,
                "boot_id": report.boot_id,
                "hardware": report.hardware.name,
                "hardware_hash": report.hardware.hash,
                "software": report.software,
                "kernel": report.kernel,
                "pinproof": report.pinproof,
                "session": report.session,
                "kind": report.kind,
                "at": report.ended_s,
            }
            found = said(report)
            of_kind = _of_session(found) if isinstance(found, Session) else _of_result(found, report.kind)
            for row in of_kind:
                yield _row(of_report, **row)


def _row(own: Row, **more: Any) -> Row:
    return {**dict.fromkeys(TEXTS, ""), "at": None, "count": 1, "measures": {}, **own, **more}


def _of_session(session: Session) -> Iterator[Row]:
    for scenario in session.scenarios:
        place = {"scenario": scenario.name, "promises": scenario.promises}
        for row in _verdicts(scenario):
            yield place | row
        for control in scenario.controls:
            yield place | {
                "rule": control.rule,
                "subject": control.subject,
                "outcome": control.outcome.value,
                "reason": control.reason,
                "control": control.name,
            }


def _verdicts(scenario: SessionScenario) -> Iterator[Row]:
    """Yield the verdicts of a scenario: the index names those that passed and have measures, and counts others."""
    measures = {tuple(about.split(" ", 1)): numbers for about, numbers in scenario.measures.items()}
    others = {(one.rule, one.subject) for one in scenario.others}
    for one in scenario.others:
        found = measures.get((one.rule, one.subject), {})
        yield {
            "rule": one.rule,
            "subject": one.subject,
            "outcome": one.outcome.value,
            "reason": one.reason,
            "measures": found,
        }
    for rule, number in scenario.passed.items():
        named = [key for key in measures if key[0] == rule and key not in others]
        for key in named:
            yield {"rule": rule, "subject": key[-1], "outcome": Outcome.PASSED.value, "measures": measures[key]}
        if number > len(named):
            yield {"rule": rule, "outcome": Outcome.PASSED.value, "count": number - len(named)}
    if scenario.outcome is not worst((Outcome.PASSED, *(one.outcome for one in scenario.others))):
        yield {"outcome": scenario.outcome.value, "reason": scenario.reason}


def _of_result(result: Result, kind: str) -> Iterator[Row]:
    measures = gated_measures(result.verdicts)
    for verdict in result.verdicts:
        yield {
            "scenario": "" if kind == "watch" else kind,
            "rule": verdict.rule,
            "subject": verdict.subject,
            "outcome": verdict.outcome.value,
            "reason": verdict.reason,
            "measures": measures.get(f"{verdict.rule} {verdict.subject}", {}),
        }


def saved(report: Report) -> Session | Result:
    """Read a report's file again."""
    return reading.saved(Path(os.fsdecode(raw(report.path))))


def write_parquet(path: Path, hosts: Sequence[Host], said: Said = saved) -> int:
    """Write the rows; return how many. The file appears whole or not at all.

    :raises HostUnsupportedError: pyarrow is not installed. :raises InputError: it cannot be written.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise HostUnsupportedError("--parquet needs pyarrow: pip install 'pinproof[fleet]'") from None
    fields = [(name, pyarrow.string()) for name in TEXTS]
    fields += [("at", pyarrow.timestamp("ms", tz="UTC")), ("count", pyarrow.int64())]
    fields += [("measures", pyarrow.map_(pyarrow.string(), pyarrow.float64()))]
    schema = pyarrow.schema(fields)
    draft, written = path.with_name(f".{path.name}.part"), 0
    try:
        with parquet.ParquetWriter(draft, schema, compression="zstd") as writer:
            for group in _grouped(rows_of(hosts, said)):
                writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
                written += len(group)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InputError(str(path), error.strerror or str(error), "a place that can be written") from None
    return written


def _grouped(rows: Iterable[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        at = row["at"]
        group.append({**row, "at": None if at is None else int(at * 1000), "measures": list(row["measures"].items())})
        if len(group) >= ROWS_A_GROUP:
            yield group
            group = []
    yield group
