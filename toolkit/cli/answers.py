"""Answers about many runs or nodes that were saved: what `compare --json` and `fleet --json` print."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from toolkit import presence
from toolkit.fleet.answer import FleetAnswer
from toolkit.fleet.values import Comparison
from toolkit.model.serde import from_json, printable_json, read_text, to_data
from toolkit.model.verdict import exit_code
from toolkit.packed import is_packed
from toolkit.report.comparison_junit import render_junit
from toolkit.report.comparison_table import render_comparison
from toolkit.report.fleet_table import render_fleet

Render = Callable[[bool], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One of them. :param formats: name -> what renders it, in full or not. :param html: renders it under a name.

    :param code: the exit code of the verb that gave it.
    """

    code: int
    formats: Mapping[str, Render]
    html: Callable[[str], str]


def answer_in(path: Path) -> Answer | None:
    """Read an answer; ``None``: the path names something else.

    :raises InputError: it is one, and is broken.
    """
    if is_packed(path) or not path.name.endswith(".json") or not presence.is_file(path):
        return None
    text = read_text(path, "an answer of compare --json or fleet --json")
    try:
        schema = json.loads(text).get("schema")
    except (ValueError, AttributeError):
        return None  # read, and refused, as a run
    if schema == "pinproof.comparison/2":
        return _of_comparison(from_json(Comparison, text, str(path)))
    return _of_fleet(from_json(FleetAnswer, text, str(path))) if schema == "pinproof.fleet/1" else None


def _of_comparison(found: Comparison) -> Answer:
    def html(name: str) -> str:
        from toolkit.report.html.comparison import comparison_page

        return comparison_page(found, name)

    formats = {
        "table": lambda _: render_comparison(found),
        "json": _json(found),
        "junit": lambda _: render_junit(found),
    }
    return Answer(code=exit_code(found.outcome), formats=formats, html=html)


def _of_fleet(found: FleetAnswer) -> Answer:
    def html(name: str) -> str:
        from toolkit.report.html.fleet import fleet_page

        return fleet_page(found, name)

    formats = {"table": lambda verbose: render_fleet(found, verbose=verbose), "json": _json(found)}
    return Answer(code=found.code, formats=formats, html=html)


def _json(found: object) -> Render:
    return lambda _: printable_json(json.dumps(to_data(found), indent=2, ensure_ascii=False)) + "\n"
