"""Edits of a saved run's evidence: every one that takes something away or calls it something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Data = dict[str, Any]
NAMES = ("claim", "from_claim", "to_claim")
OUTSIDE = ("out_of_set_switches", "out_of_set_ns", "out_of_set_longest_ns", "out_of_set_samples")
ABSENT = "absent"


def edits(data: Data, claims: list[str]) -> Iterator[tuple[str, Data]]:
    """Yield what was done (the same text for the same kind of edit) and the evidence after it."""
    for key, value in data.items():
        if key == "schema":
            continue
        if isinstance(value, list):
            yield from _of_rows(data, key, value, claims)
        elif isinstance(value, dict):
            for name, found in value.items():
                if less := _less(found):
                    yield f"{key}.{name}: less", {**data, key: {**value, name: less[0]}}
        else:
            for less in _less(value):
                yield f"{key}: less", {**data, key: less}


def _of_rows(data: Data, key: str, rows: list[Any], claims: list[str]) -> Iterator[tuple[str, Data]]:
    if rows:
        yield f"{key}: all taken out", {**data, key: []}
    for at, row in enumerate(rows):
        before, after = rows[:at], rows[at + 1 :]
        yield f"{key}: taken out", {**data, key: [*before, *after]}
        yield f"{key}: twice", {**data, key: [*rows, row]}
        if isinstance(row, dict):
            for what, edited in _of_row(row, claims):
                yield f"{key}{what}", {**data, key: [*before, edited, *after]}
        if isinstance(row, dict) and row.get("out_of_set_ns") and "transition_ns" in row:
            clean = {**row, **dict.fromkeys(OUTSIDE, 0)}
            forgiven = {"transition_ns": row["out_of_set_ns"], "transition_switches": row["out_of_set_switches"]}
            for what, kept in (
                ("forgiven", [{**clean, **forgiven}]),
                ("never outside", [clean]),
                ("and offenders taken out", []),
            ):
                yield f"{key}: {what}", {**data, "offenders": [], key: [*before, *kept, *after]}


def _of_row(row: Data, claims: list[str]) -> Iterator[tuple[str, Data]]:
    for name, value in row.items():
        for less in _less(value):
            yield f".{name}: less", {**row, name: less}
        if name in NAMES and value:
            yield from ((f".{name}: renamed", {**row, name: other}) for other in (*claims, ABSENT) if other != value)
        if name == "cpu":
            yield from ((f".{name}: another", {**row, name: other}) for other in (0, 1) if other != value)
        if name == "owner":
            yield f".{name}: renamed", {**row, name: "kthread" if value != "kthread" else "system"}


def _less(value: Any) -> list[Any]:
    if isinstance(value, bool) or not isinstance(value, int | list):
        return []
    if isinstance(value, list):
        return [[]] if value else []
    return [0, value // 2] if value else []
