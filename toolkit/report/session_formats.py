"""A session that was judged again, in the formats in which `pinproof conformance` prints one."""

from __future__ import annotations

import json

from toolkit.model.serde import printable_json, to_data
from toolkit.report.conformance_junit import render_junit
from toolkit.report.conformance_table import render_conformance
from toolkit.report.text import printable_lines
from toolkit.session.saved_session import JudgedSession


def render_session(judged: JudgedSession, kind: str, *, verbose: bool) -> str:
    """Return a session as ``table``, ``json`` or ``junit``. :param verbose: a table names what was skipped."""
    if kind == "junit":
        return render_junit(judged.results, judged.session.identity)
    if kind == "json":
        data = {
            "schema": "pinproof.conformance/1",
            "outcome": judged.outcome.value,
            "session": judged.session.session,
            "scenarios": [to_data(result) for result in judged.results],
        }
        return printable_json(json.dumps(data, indent=2, ensure_ascii=False)) + "\n"
    cut = "" if judged.session.complete else "This session was cut short: not every scenario that fits was run.\n\n"
    head = f"{cut}Session {judged.session.session} on {judged.session.identity.node or 'a node without a name'}\n\n"
    return printable_lines(head + render_conformance(judged.results, judged.session.duration_s, verbose=verbose)) + "\n"
