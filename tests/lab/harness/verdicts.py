"""What a guest's verdicts have to be, whatever the host does to its clock."""

from __future__ import annotations

import re
from typing import Any


def verdicts_of(found: dict[str, Any], rule: str) -> dict[str, dict[str, Any]]:
    """Return a rule's verdicts by subject."""
    return {verdict["subject"]: verdict for verdict in found["verdicts"] if verdict["rule"] == rule}


def failed_of(found: dict[str, Any], subject: str) -> list[dict[str, Any]]:
    """Return the verdicts that failed about a subject."""
    return [one for one in found["verdicts"] if (one["subject"], one["outcome"]) == (subject, "failed")]


TIMING = (
    r"the planted escape was reported after [\d.]+ ms \(stated: \d+ ms\)",
    r"\S+: CPU time by the ledger [\d.]+ ms, by the cgroup [\d.]+ ms \(allowed .*\)",
)
"""Doubts that come from reports being late, and from two accounts being read one after the other, while the host has
taken the guest's CPUs away: they keep a verdict from passing, as they should, and say nothing about the kernel."""


def assert_clean(verdict: dict[str, Any]) -> None:
    """Assert that a verdict passed, or that nothing but the emulator's timing kept it from passing."""
    if verdict["outcome"] == "undecided":
        doubts = verdict["reason"].split("; ")
        assert [doubt for doubt in doubts if not any(re.fullmatch(known, doubt) for known in TIMING)] == []
    else:
        assert verdict["outcome"] == "passed", verdict
    assert verdict["offenders"] == []
