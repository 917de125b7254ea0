"""The project's own tests, run inside a guest."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass

from tests.lab.harness.guest import Guest
from tests.lab.harness.guest_files import PROJECT

RUN_TESTS = """
import os
import pytest
os.environ.update(ARGS["env"])
raise SystemExit(pytest.main([*ARGS["words"], "-q", "-p", "no:cacheprovider", "--junitxml=/tmp/tests.xml"]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a test of the project came to inside a guest."""

    name: str
    outcome: str
    said: str


def run_tests(
    guest: Guest, *words: str, timeout_s: float = 600, env: Mapping[str, str] | None = None
) -> tuple[Ran, ...]:
    """Run tests of the project inside the guest and return each one's fate; at least one has to have run."""
    guest.run(["rm", "-f", "/tmp/tests.xml"]).check()
    done = guest.python(RUN_TESTS, {"words": list(words), "env": dict(env or {})}, cwd=PROJECT, timeout_s=timeout_s)
    assert done.code in (0, 1), f"pytest ended with {done.code}\n{done.text[-3000:]}\n{done.error_text[-3000:]}"
    found = []
    for case in ET.fromstring(guest.read("/tmp/tests.xml")).iter("testcase"):
        fate = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        found.append(
            Ran(
                name=case.get("name", ""),
                outcome="passed" if fate is None else fate.tag,
                said="" if fate is None else f"{fate.get('message', '')}\n{fate.text or ''}"[-2500:],
            )
        )
    assert found
    return tuple(found)


def assert_all_passed(ran: tuple[Ran, ...], skips: str = "") -> None:
    """Every test passed; ``skips``: a pattern of the reasons for which some may have been skipped."""
    broken = [case for case in ran if case.outcome in ("failure", "error")]
    assert not broken, "\n".join(f"== {case.name}: {case.outcome}\n{case.said}" for case in broken)
    silent = [case for case in ran if case.outcome == "skipped" and not (skips and re.search(skips, case.said))]
    assert silent == []
