"""The one list of verbs: what ``pinproof --help`` offers is what ``pinproof doctor`` lists."""

from __future__ import annotations

VERBS: dict[str, str] = {
    "plan": "plan",
    "simulate": "simulate",
    "run": "run",
    "conformance": "conformance",
    "watch": "watch",
    "claims": "claims",
    "capture": "capture",
    "inject": "inject",
    "judge": "judge",
    "report": "report",
    "compare": "compare",
    "rules": "rules",
    "explain": "explain",
    "topology": "topology",
    "doctor": "doctor",
    "cleanup": "cleanup",
}
"""Verb -> module under :mod:`toolkit.cli` that defines a click command of the same name."""
