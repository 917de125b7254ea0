"""The table of docs/distributions.md, from what ``tools/verbs_tried.py`` has recorded in ``docs/distributions/``.

Written by ``python -m tools.readme``, as the other tables of documents. A row is one record: a distribution, a kernel,
how pinproof was installed, and how each verb came out there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolkit.verbs import VERBS
from tools.verbs_tried import SCHEMA

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "docs/distributions"
TITLES = (
    "distribution",
    "kernel",
    "how installed",
    "Python, bcc",
    "verbs that passed",
    "others",
    "when, commit, command",
)


def records(root: Path) -> Iterator[dict[str, Any]]:
    """Yield what was recorded, by distribution and then by how it was installed.

    :raises ValueError: a record is of another kind, or says nothing about a verb.
    """
    for path in sorted((root / FOLDER).glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["schema"] != SCHEMA or set(record["verbs"]) != set(VERBS):
            raise ValueError(f"{path.name}: not of schema {SCHEMA} with each verb: record it again")
        yield record


def row(record: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of a record: each verb that did not pass with what it said."""
    verbs = record["verbs"]
    passed = sum(one["outcome"] == "passed" for one in verbs.values())
    others = (f"`{verb}` {one['outcome']}: {one['said']}" for verb, one in verbs.items() if one["outcome"] != "passed")
    about = [part.strip() for part in record["about"].split(";")]
    versions = ", ".join(part for part in reversed(about) if not part.startswith("Linux"))
    return (
        record["distribution"],
        f"{record['kernel']}, {record['machine']}",
        record["how"],
        versions,
        f"{passed} of {len(verbs)}",
        "; ".join(others),
        f"{record['date']}, {record['commit']}, `{record['command']}`",
    )
