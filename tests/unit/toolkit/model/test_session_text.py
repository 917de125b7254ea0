"""``session.json`` as text: small enough to be fetched from thousands of nodes, and nothing is lost in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.fleet.sessions_builder import DELAY, MEASURES, RULE, USAGE, scenario, session
from toolkit.errors import InputError
from toolkit.model.serde import to_lean_json
from toolkit.model.session import SessionControl
from toolkit.model.session_text import session_text
from toolkit.model.verdict import Outcome
from toolkit.session.index import save_session
from toolkit.store import load_session, parse_session
from validators.registry import measure_of

CORE = Path(__file__).resolve().parents[3] / "data/sessions/two-cpus/session.json"
MAX_BYTES = 32 * 1024


def test_the_index_of_a_core_session_is_small(tmp_path: Path) -> None:
    """At most 32 KB for the core scenarios: the recorded file, and what is written of it now."""
    found = load_session(CORE)

    again = save_session(tmp_path, found)

    assert len(found.skipped) == found.counts["skipped"]
    assert again.read_bytes() == CORE.read_bytes()
    assert len(again.read_bytes()) <= MAX_BYTES


def test_an_index_of_before_says_the_same() -> None:
    """A name at each value, as it was written: it is read as its tables are."""
    found = load_session(CORE)
    before = to_lean_json(found)

    assert '"cpuset-containment db/main":{"out_of_set_ns":' in before
    assert parse_session(before.encode(), "before") == found


def test_what_scenarios_have_in_common_stands_in_the_file_once() -> None:
    """Kind, direction and smallest effect by the rule's own word; what a verdict lacks; what no rule has any more."""
    about = {
        f"{RULE} a": {USAGE: 0.5},
        f"{RULE} b": {DELAY: 7},
        f"{RULE} c": dict(MEASURES),
        "gone-rule d": {"x_ns": 1},
    }
    caught = SessionControl(name="widen-cpuset db/main applied", outcome=Outcome.PASSED, run="x.tar.gz")
    missed = replace(caught, name="widen-cpuset db/main noise", outcome=Outcome.FAILED, reason="not seen")
    made = session(
        0,
        "node1",
        scenario(measures=about, controls=(caught, missed, replace(missed, run="", subject="db/main"))),
        scenario("other", measures={}, controls=(), passed={"evidence-health": 2, "applied": 1}),
        skipped={"two": "needs 3 CPUs", "three": "needs 4 CPUs", "four": "needs 3 CPUs"},
    )

    text = session_text(made, measure_of)

    data = json.loads(text)
    usage, delay, period = data["kinds"][RULE]
    assert usage == {"name": USAGE, "kind": "level", "better": "more", "relative": 0.03, "absolute": 0.005}
    assert (delay["name"], period["name"]) == (DELAY, "period_us")
    assert data["kinds"]["gone-rule"] == [{"name": "x_ns", "kind": "word"}]
    one, other = data["scenarios"]
    assert one["measures"][RULE] == {"a": [0.5], "b": [None, 7], "c": [0.5, 400_000_000, 100_000]}
    assert one["controls"] == {
        "x.tar.gz": [[caught.name, "passed"], [missed.name, "failed", "", "not seen"]],
        "": [[missed.name, "failed", "db/main", "not seen"]],
    }
    assert (data["rules"], one["passed"], other["passed"]) == ([RULE, "evidence-health", "applied"], [2, 1], [0, 2, 1])
    assert data["skipped"] == {"needs 3 CPUs": ["two", "four"], "needs 4 CPUs": ["three"]}
    assert parse_session(text.encode(), "session.json") == made


def _first(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["scenarios"][0]
    return found


MEASURED, PASSED_ROW = (
    f"scenarios.0.measures.{RULE}.load/main; expected a list of at most 3 values",
    "scenarios.0.passed",
)
EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "more values than measures": (lambda data: _first(data)["measures"][RULE]["load/main"].append(1), MEASURED),
    "a rule without kinds": (lambda data: data["kinds"].clear(), "at most 0 values"),
    "values of no list": (lambda data: _first(data)["measures"].update({RULE: {"a": {}}}), "a list of at most 3"),
    "a rule of no mapping": (lambda data: _first(data)["measures"].update({RULE: 1}), "a mapping is expected"),
    "no mapping": (lambda data: _first(data).update(measures=[]), "scenarios.0.measures: a mapping is expected"),
    "a text": (lambda data: _first(data)["measures"][RULE].update(a=["1 or 2"]), "scenarios.0.measures"),
    "a measure twice": (lambda data: data["kinds"][RULE].append(data["kinds"][RULE][0]), "a name twice"),
    "kinds of no mapping": (lambda data: data.update(kinds=3), "kinds: a mapping is expected"),
    "an unknown kind": (lambda data: data["kinds"][RULE][0].update(kind="sum"), "kinds"),
    "scenarios of no list": (lambda data: data.update(scenarios=3), "scenarios: a list is expected"),
    "a scenario of no mapping": (lambda data: data.update(scenarios=[3]), "scenarios.0"),
    "more counts than rules": (lambda data: _first(data)["passed"].append(1), PASSED_ROW),
    "counts by name": (lambda data: _first(data).update(passed={RULE: 1}), PASSED_ROW),
    "a rule twice": (lambda data: data["rules"].append(RULE), "rules: a name twice"),
    "rules of no list": (lambda data: data.update(rules=3), "rules: a list is expected"),
    "controls of no mapping": (lambda data: _first(data).update(controls=[]), "controls: a mapping is expected"),
    "rows of no list": (lambda data: _first(data)["controls"].update(x=3), "controls.x: a list is expected"),
    "a control of no row": (lambda data: _first(data)["controls"].update(x=[3]), "a list of at most 4 values"),
    "a control without outcome": (lambda data: _first(data)["controls"].update(x=[["a b c"]]), "outcome is missing"),
    "a scenario that was skipped twice": (
        lambda data: data.update(skipped={"a": ["s"], "b": ["s"]}),
        "skipped: a name",
    ),
    "skipped by name": (lambda data: data.update(skipped={"s": "needs 3 CPUs"}), "skipped.s: a list is expected"),
}


@pytest.mark.parametrize("name", EDITS)
def test_tables_that_are_none_are_one_line(name: str) -> None:
    """A stranger's file: where it is wrong, and never a traceback."""
    edit, told = EDITS[name]
    data = json.loads(session_text(session(), measure_of))
    edit(data)

    with pytest.raises(InputError, match=r"^session\.json: ") as refused:
        parse_session(json.dumps(data).encode(), "session.json")

    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
