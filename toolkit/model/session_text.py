"""``session.json`` as text: measures are tables, and what a measure is stands in it once.

``kinds``: rule -> its measures here, each with kind, direction and smallest effect, as the rule declares them; the unit
is the end of the name. A scenario's ``measures``: rule -> subject -> values in that order, ``null`` for a measure that
a verdict does not have, and nothing after the last one that it has. An index without ``kinds`` is of before: its
scenarios say ``rule subject`` -> name -> value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pydantic_core

from toolkit.errors import InputError
from toolkit.model.measures import Kind, MeasureKind
from toolkit.model.serde import from_data, lean_data, printable_json, stage_value
from toolkit.model.session import Session

Numbers = Mapping[str, Mapping[str, int | float]]
"""``rule subject`` -> name -> value."""
KindOf = Callable[[str, str], MeasureKind | None]


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class _Kinds:
    """What the measures of an index are, by rule."""

    kinds: dict[str, tuple[MeasureKind, ...]]


def session_text(session: Session, kind_of: KindOf) -> str:
    """Write the index: what says nothing is left out, and a scenario begins a line.

    :param kind_of: what a rule says that a measure of it is.
    """
    kinds = _kinds((scenario.measures for scenario in session.scenarios), kind_of)
    data = lean_data(session)
    scenarios = data.pop("scenarios", [])
    for scenario, written in zip(session.scenarios, scenarios, strict=True):
        if scenario.measures:
            written["measures"] = _table(scenario.measures, kinds)
    if kinds:
        data["kinds"] = {rule: [lean_data(one) for one in of_rule] for rule, of_rule in kinds.items()}
    data["scenarios"] = scenarios
    text = printable_json(pydantic_core.to_json(data, inf_nan_mode="null").decode())
    return text.replace('{"name":', '\n{"name":') + "\n"


def _kinds(measures: Iterable[Numbers], kind_of: KindOf) -> dict[str, list[MeasureKind]]:
    names: dict[str, dict[str, None]] = {}
    for numbers in measures:
        for about, values in numbers.items():
            names.setdefault(about.partition(" ")[0], {}).update(dict.fromkeys(values))
    return {rule: [_kind(kind_of, rule, name) for name in of_rule] for rule, of_rule in names.items()}


def _kind(kind_of: KindOf, rule: str, name: str) -> MeasureKind:
    """Return what a measure is; of one that no rule declares any more nothing is known."""
    found = kind_of(rule, name)
    return MeasureKind(name=name, kind=Kind.WORD) if found is None else replace(found, name=name)


def _table(measures: Numbers, kinds: Mapping[str, list[MeasureKind]]) -> dict[str, dict[str, list[int | float | None]]]:
    found: dict[str, dict[str, list[int | float | None]]] = {}
    for about, numbers in measures.items():
        rule, _, subject = about.partition(" ")
        values = [numbers.get(kind.name) for kind in kinds[rule]]
        while values and values[-1] is None:
            values.pop()
        found.setdefault(rule, {})[subject] = values
    return found


def with_names(data: dict[str, Any], where: str) -> dict[str, Any]:
    """Return an index, as it was read, with a name at each value, as :class:`Session` has them.

    :raises InputError: its tables are none.
    """
    if "kinds" not in data:
        return data
    found = {name: value for name, value in data.items() if name != "kinds"}
    kinds = from_data(_Kinds, {"kinds": data["kinds"]}, where).kinds
    names = {rule: [kind.name for kind in of_rule] for rule, of_rule in kinds.items()}
    for rule, of_rule in names.items():
        if len(set(of_rule)) < len(of_rule):
            raise InputError(where, f"kinds.{rule}: a measure twice", "each measure of a rule once")
    scenarios = data.get("scenarios")
    if isinstance(scenarios, list):
        found["scenarios"] = [_scenario(one, names, f"scenarios.{at}", where) for at, one in enumerate(scenarios)]
    return found


def _scenario(scenario: object, names: Mapping[str, list[str]], place: str, where: str) -> object:
    if not isinstance(scenario, dict) or "measures" not in scenario:
        return scenario
    measures: dict[str, dict[str, object]] = {}
    for rule, of_rule in _mapping(scenario["measures"], f"{place}.measures", where).items():
        known = names.get(rule, [])
        for subject, values in _mapping(of_rule, f"{place}.measures.{rule}", where).items():
            if not isinstance(values, list) or len(values) > len(known):
                expected = f"a list of at most {len(known)} values, as many as kinds has measures of the rule"
                raise InputError(where, f"{place}.measures.{rule}.{subject}", expected)
            numbers = dict(zip(known, values, strict=False))
            whole = None not in values
            measures[f"{rule} {subject}"] = (
                numbers if whole else {name: value for name, value in numbers.items() if value is not None}
            )
    return {**scenario, "measures": measures}


def _mapping(value: object, place: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(where, f"{place}: a mapping is expected")
    return value
