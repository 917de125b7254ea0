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
from toolkit.model.session_text import session_text
from toolkit.session.index import save_session
from toolkit.store import load_session, parse_session
from validators.registry import measure_of

CORE = Path(__file__).resolve().parents[3] / "data/sessions/two-cpus/session.json"
MAX_BYTES = 32 * 1024


def test_the_index_of_a_core_session_is_small(tmp_path: Path) -> None:
    """At most 32 KB for the core scenarios: the recorded file, and what is written of it now."""
    again = save_session(tmp_path, load_session(CORE))

    assert again.read_bytes() == CORE.read_bytes()
    assert len(again.read_bytes()) <= MAX_BYTES


def test_an_index_of_before_says_the_same() -> None:
    """A name at each value, as it was written: it is read as its tables are."""
    found = load_session(CORE)
    before = to_lean_json(found)

    assert '"cpuset-containment db/main":{"out_of_set_ns":' in before
    assert parse_session(before.encode(), "before") == found


def test_what_a_measure_is_stands_in_the_file_once() -> None:
    """Kind, direction and smallest effect by the rule's own word; what a verdict lacks; what no rule has any more."""
    about = {
        f"{RULE} a": {USAGE: 0.5},
        f"{RULE} b": {DELAY: 7},
        f"{RULE} c": dict(MEASURES),
        "gone-rule d": {"x_ns": 1},
    }
    made = session(0, "node1", scenario(measures=about), scenario("other", measures={}))

    text = session_text(made, measure_of)

    data = json.loads(text)
    usage, delay, period = data["kinds"][RULE]
    assert usage == {"name": USAGE, "kind": "level", "better": "more", "relative": 0.03, "absolute": 0.005}
    assert (delay["name"], period["name"]) == (DELAY, "period_us")
    assert data["kinds"]["gone-rule"] == [{"name": "x_ns", "kind": "word"}]
    assert data["scenarios"][0]["measures"][RULE] == {"a": [0.5], "b": [None, 7], "c": [0.5, 400_000_000, 100_000]}
    assert parse_session(text.encode(), "session.json") == made
    assert "kinds" not in json.loads(session_text(replace(made, scenarios=made.scenarios[1:]), measure_of))


def _first(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data["scenarios"][0]
    return found


EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "more values than measures": (
        lambda data: _first(data)["measures"][RULE]["load/main"].append(1),
        f"scenarios.0.measures.{RULE}.load/main; expected a list of at most 3 values",
    ),
    "a rule without kinds": (lambda data: data["kinds"].clear(), "at most 0 values"),
    "values of no list": (lambda data: _first(data)["measures"].update({RULE: {"a": {}}}), "a list of at most 3"),
    "a rule of no mapping": (lambda data: _first(data)["measures"].update({RULE: 1}), "a mapping is expected"),
    "no mapping": (lambda data: _first(data).update(measures=[]), "scenarios.0.measures: a mapping is expected"),
    "a text": (lambda data: _first(data)["measures"][RULE].update(a=["1 or 2"]), "scenarios.0.measures"),
    "a measure twice": (lambda data: data["kinds"][RULE].append(data["kinds"][RULE][0]), "a measure twice"),
    "kinds of no mapping": (lambda data: data.update(kinds=3), "kinds: a mapping is expected"),
    "an unknown kind": (lambda data: data["kinds"][RULE][0].update(kind="sum"), "kinds"),
    "scenarios of no list": (lambda data: data.update(scenarios=3), "scenarios: a list is expected"),
    "a scenario of no mapping": (lambda data: data.update(scenarios=[3]), "scenarios.0"),
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
