"""How often the gate is wrong, on recorded sessions of one machine that was as busy as a machine can be.

`tests/data/sessions`: `pinproof conformance --select quota-050-over`, one after the other, their `session.json` alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.toolkit.fleet.compared import gate
from tests.unit.toolkit.fleet.sessions_builder import DELAY, PERIOD, USAGE, edited
from toolkit.fleet.observed import of_session
from toolkit.fleet.values import Comparison
from toolkit.model.session import Session, SessionVerdict
from toolkit.model.verdict import Outcome
from toolkit.store import load_session

DATA = Path(__file__).resolve().parents[3] / "data" / "sessions"
RECORDED = [load_session(path) for path in sorted(DATA.glob("*.json"))]
QUIET = [one for one in RECORDED if one.outcome is Outcome.PASSED]
TRIES, NEEDED = 20, 19
REPEATS = 7


def compared(base: Sequence[Session], new: Sequence[Session], confirm: Sequence[Session] = ()) -> Comparison:
    return gate(*([of_session(one) for one in side] for side in (base, new)), confirm=[of_session(c) for c in confirm])


def by_turns(draw: random.Random, pool: Sequence[Session]) -> tuple[list[Session], list[Session], list[Session]]:
    """Draw seven of each, in pairs of neighbours in time, and one more to confirm; none twice."""
    drawn = draw.sample(list(pool), 2 * REPEATS + 1)
    confirm, order = drawn[-1:], sorted(drawn[:-1], key=lambda one: one.started_at)
    pairs = [draw.sample(order[at : at + 2], 2) for at in range(0, len(order), 2)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs], confirm


def test_there_is_enough_to_draw_from() -> None:
    """Busy sessions, too: some came out undecided."""
    assert len(RECORDED) >= 2 * REPEATS + 2
    assert {one.outcome for one in RECORDED} == {Outcome.PASSED, Outcome.UNDECIDED}


def test_equal_sides_are_not_red() -> None:
    """A/A: 300 pairs of seven sessions each; at most 1 % are red, and at most 1 % suspect."""
    draw = random.Random(44)
    suspect = red = 0
    for _ in range(300):
        base, new, confirm = by_turns(draw, RECORDED)
        suspect += compared(base, new).outcome is not Outcome.PASSED
        red += compared(base, new, confirm).regressed
    assert (red <= 3, suspect <= 3) == (True, True), (red, suspect)


def escaped(found: Session) -> Session:
    """One escape of 1 ms, as `cpuset-containment` reports it."""
    escape = SessionVerdict(
        rule="cpuset-containment", subject="load/main", outcome=Outcome.FAILED, reason="1.0 ms outside its CPUs"
    )
    first = found.scenarios[0]
    return replace(found, scenarios=(replace(first, others=(*first.others, escape)), *found.scenarios[1:]))


WORSE: dict[str, Callable[[Session], Session]] = {
    "quota accuracy -5 %": lambda one: edited(one, {USAGE: 0.95}),
    "run-queue delay x2": lambda one: edited(one, {DELAY: 2.0}),
    "a wrong period": lambda one: edited(one, {PERIOD: 0.1}),
    "one escape of 1 ms": escaped,
    "a lost scenario": lambda one: replace(one, scenarios=()),
    "a new blind spot": lambda one: replace(one, blind_spots={**one.blind_spots, "interrupts are not seen": 1}),
}
ONCE = ("one escape of 1 ms",)
"""Seen in one of the seven repeats of NEW."""


def edited_pair(
    draw: random.Random, worse: Callable[[Session], Session], repeats: int, *, once: bool = False
) -> tuple[list[Session], list[Session], list[Session]]:
    """Draw each side by itself of the sessions that passed, which are few; their moments are by turns.

    :param once: only one repeat of NEW is worse.
    """

    def at(found: Session, minute: int) -> Session:
        return replace(found, started_at=f"2026-11-29T00:{minute:02}:00+00:00")

    base = [at(one, 2 * turn) for turn, one in enumerate(draw.sample(QUIET, repeats))]
    new = [at(one, 2 * turn + 1) for turn, one in enumerate(draw.sample(QUIET, repeats))]
    bad = [worse(one) if turn == 0 or not once else one for turn, one in enumerate(new)]
    return base, bad, [worse(one) for one in draw.sample(QUIET, 3)]


@pytest.mark.parametrize("what", WORSE)
def test_what_is_worse_is_red(what: str) -> None:
    """Power: 20 tries, at least 19 red. Ten repeats: a busy machine's usage spreads by 1.3 %."""
    draw = random.Random(45)
    tries = [edited_pair(draw, WORSE[what], 10, once=what in ONCE) for _ in range(TRIES)]
    red = sum(compared(*one).regressed for one in tries)
    assert red >= NEEDED, red


@pytest.mark.parametrize("what", [what for what in WORSE if "%" not in what and "x2" not in what])
def test_one_run_each_shows_what_needs_no_statistics(what: str) -> None:
    """The gate of a user with one session before and one after."""
    draw = random.Random(46)
    for _ in range(TRIES):
        base, new = draw.sample(QUIET, 2)
        assert compared([base], [WORSE[what](new)]).regressed
        assert not compared([base], [new]).regressed
