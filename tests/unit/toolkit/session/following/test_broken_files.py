"""A state file that is wrong is a line when it is read; so is an owner whose CPUs become others while it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.toolkit.session.followed import Node
from tests.unit.validators.checkpoint_builder import GOOD, reading, state
from toolkit.model.claims import ClaimSet, Isolation
from toolkit.session.following.broken_files import BrokenFiles
from toolkit.sources.live_source import SourceReading

SECOND = 1_000_000_000
TORN = GOOD.replace('"0-1"', '"0-2"')
"""Edited by hand: the checksum is of another content."""
DOUBLE = state("0-2")
"""Written with its checksum; CPU 2 is in the pool, and a container's."""
BAD = "cpu_manager_state: the checksum is not that of the content"


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def seen(lines: list[str]) -> BrokenFiles:
    return BrokenFiles(lines.append)


def note(seen: BrokenFiles, text: str, at_s: float) -> None:
    claims = ClaimSet(claims=())
    seen.note(SourceReading(claims=claims, state_files=(reading(text),)), round(at_s * SECOND))


def test_what_no_save_makes_is_said_at_once(seen: BrokenFiles, lines: list[str]) -> None:
    """Once for as long as it lasts, and again when it is so again."""
    for at_s, text in enumerate((GOOD, TORN, TORN, GOOD, TORN)):
        before = len(lines)
        note(seen, text, 2.0 * at_s)
        assert lines[before:] == ([BAD] if at_s in (1, 4) else [])


def test_what_may_be_between_two_saves_is_said_when_it_lasts(seen: BrokenFiles, lines: list[str]) -> None:
    """It is looked at again although the file says the same, and not when it was repaired."""
    for at_s, text in ((0, GOOD), (2, DOUBLE), (4, GOOD), (6, DOUBLE), (8, DOUBLE), (10, DOUBLE)):
        note(seen, text, at_s)
    assert lines == []
    note(seen, DOUBLE, 11.5)
    assert len(lines) == 1
    assert lines[0].startswith("cpu_manager_state: ")
    assert "2" in lines[0]


def test_a_sound_file_is_not_asked_twice(seen: BrokenFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most readings find nothing new."""
    note(seen, GOOD, 0)
    monkeypatch.setattr("validators.rules.checkpoint.wrong_now", lambda *_: pytest.fail("asked"))
    for at_s in range(1, 5):
        note(seen, GOOD, 2.0 * at_s)


def test_the_follower_says_both_when_it_applies_a_reading(tmp_path: Path) -> None:
    """Long before the window ends."""
    node = Node(tmp_path)
    own = replace(node.claim("db", "2-3"), isolation=Isolation.CONTAINER)
    node.say(own, state_files=(reading(GOOD),))
    node.say(replace(own, cpus=reading(GOOD).cpus_online), state_files=(reading(TORN),))
    assert BAD in node.lines
    assert "db: its own CPUs are 0-3 now, they were 2-3" in node.lines
