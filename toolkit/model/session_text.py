"""``session.json`` as text: what scenarios have in common stands in it once, and the rest in tables.

An index that has ``rules`` is written so; one that has not is of before, and says each name at each value.

- ``rules``: those that passed anywhere. A scenario's ``passed``: how many verdicts of each, in that order.
- ``kinds``: rule -> its measures, each with kind, direction and smallest effect, as the rule declares them; the unit is
  the end of the name. A scenario's ``measures``: rule -> subject -> values in that order, ``null`` for a measure that a
  verdict does not have.
- A scenario's ``controls``: run -> rows of name, outcome, subject and reason.
- ``skipped``: reason -> scenarios.

Rows end with the last value that says something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pydantic_core

from toolkit.errors import InputError
from toolkit.model.measures import Kind, MeasureKind
from toolkit.model.serde import from_data, lean_data, printable_json, stage_value
from toolkit.model.session import Session, SessionControl

Numbers = Mapping[str, Mapping[str, int | float]]
"""``rule subject`` -> name -> value."""
Value = int | float | str | None
KindOf = Callable[[str, str], MeasureKind | None]
_CONTROL = ("name", "outcome", "subject", "reason")


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """What stands in an index once."""

    rules: tuple[str, ...]
    kinds: dict[str, tuple[MeasureKind, ...]] = field(default_factory=dict)
    skipped: dict[str, tuple[str, ...]] = field(default_factory=dict)


def session_text(session: Session, kind_of: KindOf) -> str:
    """Write the index: what says nothing is left out, and a scenario begins a line.

    :param kind_of: what a rule says that a measure of it is.
    """
    common = _common(session, kind_of)
    data = lean_data(session)
    scenarios = data.pop("scenarios", [])
    for scenario, written in zip(session.scenarios, scenarios, strict=True):
        tables = {
            "passed": _row([scenario.passed.get(rule) or None for rule in common.rules], 0),
            "measures": _table(scenario.measures, common.kinds),
            "controls": _by_run(scenario.controls),
        }
        written.update({name: table for name, table in tables.items() if table})
    text = printable_json(pydantic_core.to_json({**data, **lean_data(common), "scenarios": scenarios}).decode())
    return text.replace('{"name":', '\n{"name":') + "\n"


def _common(session: Session, kind_of: KindOf) -> _Common:
    skipped: dict[str, list[str]] = {}
    for name, reason in session.skipped.items():
        skipped.setdefault(reason, []).append(name)
    return _Common(
        rules=tuple(dict.fromkeys(rule for one in session.scenarios for rule in one.passed)),
        kinds=_kinds((scenario.measures for scenario in session.scenarios), kind_of),
        skipped={reason: tuple(scenarios) for reason, scenarios in skipped.items()},
    )


def _kinds(measures: Iterable[Numbers], kind_of: KindOf) -> dict[str, tuple[MeasureKind, ...]]:
    names: dict[str, dict[str, None]] = {}
    for numbers in measures:
        for about, values in numbers.items():
            names.setdefault(about.partition(" ")[0], {}).update(dict.fromkeys(values))
    return {rule: tuple(_kind(kind_of, rule, name) for name in of_rule) for rule, of_rule in names.items()}


def _kind(kind_of: KindOf, rule: str, name: str) -> MeasureKind:
    """Return what a measure is; of one that no rule declares any more nothing is known."""
    found = kind_of(rule, name)
    return MeasureKind(name=name, kind=Kind.WORD) if found is None else replace(found, name=name)


def _table(measures: Numbers, kinds: Mapping[str, Sequence[MeasureKind]]) -> dict[str, dict[str, list[Value]]]:
    found: dict[str, dict[str, list[Value]]] = {}
    for about, numbers in measures.items():
        rule, _, subject = about.partition(" ")
        found.setdefault(rule, {})[subject] = _row([numbers.get(kind.name) for kind in kinds[rule]], None)
    return found


def _by_run(controls: Iterable[SessionControl]) -> dict[str, list[list[Value]]]:
    found: dict[str, list[list[Value]]] = {}
    for one in controls:
        row = [one.name, str(one.outcome), one.subject or None, one.reason or None]
        found.setdefault(one.run, []).append(_row(row, ""))
    return found


def _row(values: Sequence[Value], nothing: Value) -> list[Value]:
    """Return a row up to the last value that says something. :param nothing: what is written for the others."""
    last = max((at for at, value in enumerate(values) if value is not None), default=-1)
    return [nothing if value is None else value for value in values[: last + 1]]


def with_names(data: dict[str, Any], where: str) -> dict[str, Any]:
    """Return an index, as it was read, with a name at each value, as :class:`Session` has them.

    :raises InputError: its tables are none.
    """
    if "rules" not in data:
        return data
    stated = {name: data[name] for name in ("rules", "kinds", "skipped") if name in data}
    common = from_data(_Common, stated, where)
    kinds = {
        rule: _unlike([kind.name for kind in of_rule], f"kinds.{rule}", where) for rule, of_rule in common.kinds.items()
    }
    rules = _unlike(common.rules, "rules", where)
    _unlike([name for scenarios in common.skipped.values() for name in scenarios], "skipped", where)
    found = {name: value for name, value in data.items() if name not in ("rules", "kinds")}
    if "skipped" in data:
        found["skipped"] = {name: reason for reason, scenarios in common.skipped.items() for name in scenarios}
    scenarios = data.get("scenarios")
    if isinstance(scenarios, list):
        read = _Reading(rules=rules, kinds=kinds, where=where)
        found["scenarios"] = [read.scenario(one, f"scenarios.{at}") for at, one in enumerate(scenarios)]
    return found


def _unlike(names: Sequence[str], place: str, where: str) -> Sequence[str]:
    if len(set(names)) < len(names):
        raise InputError(where, f"{place}: a name twice", "each name once")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The tables of scenarios, on their way to names."""

    rules: Sequence[str]
    kinds: Mapping[str, Sequence[str]]
    where: str

    def scenario(self, scenario: object, place: str) -> object:
        """Return a scenario with a name at each value."""
        if not isinstance(scenario, dict):
            return scenario
        found = dict(scenario)
        if "passed" in found:
            numbers = self._named(found["passed"], self.rules, None, place, "passed")
            found["passed"] = {rule: number for rule, number in numbers.items() if number != 0}
        if "measures" in found:
            found["measures"] = self._measures(found["measures"], f"{place}.measures")
        if "controls" in found:
            found["controls"] = self._controls(found["controls"], f"{place}.controls")
        return found

    def _measures(self, measures: object, place: str) -> dict[str, dict[str, object]]:
        return {
            f"{rule} {subject}": self._named(values, self.kinds.get(rule, ()), None, place, rule, subject)
            for rule, of_rule in self._mapping(measures, place).items()
            for subject, values in self._mapping(of_rule, place, rule).items()
        }

    def _controls(self, controls: object, place: str) -> list[dict[str, object]]:
        found = []
        for run, rows in self._mapping(controls, place).items():
            if not isinstance(rows, list):
                raise InputError(self.where, f"{place}.{run}: a list is expected")
            found += [{**self._named(row, _CONTROL, "", place, run), "run": run} for row in rows]
        return found

    def _named(self, row: object, names: Sequence[str], nothing: Value, *place: str) -> dict[str, object]:
        """Return the values of a row by name. :param place: of the row; of thousands of rows few places are needed."""
        if not isinstance(row, list) or len(row) > len(names):
            raise InputError(self.where, ".".join(place), f"a list of at most {len(names)} values")
        found = dict(zip(names, row, strict=False))
        return found if nothing not in row else {name: value for name, value in found.items() if value != nothing}

    def _mapping(self, value: object, *place: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InputError(self.where, f"{'.'.join(place)}: a mapping is expected")
        return value
