"""A container that restarts within a window: what is doubtful about its life before, in another cgroup."""

from __future__ import annotations

from dataclasses import replace

from probes.cgroups.lives import Account
from probes.readings import Watched
from tests.unit.probes.readings import (
    BANDWIDTH,
    BEFORE,
    CLAIM,
    DB,
    END,
    FILES,
    FRAME,
    LOST,
    ONLINE,
    QUIET,
    START,
    SWITCHES,
    built,
    but,
    counters,
)
from toolkit.model.blind_spots import Witness

FIRST = Watched(claim=replace(CLAIM, cgroup="/pods/old"), ident=LOST, cpus=ONLINE, present=False)
OLD = replace(BEFORE, cgroup="/pods/old")


def anew(throttled: int | None) -> tuple[Witness, ...]:
    """Let ``db`` begin anew in another cgroup; return what is doubtful about it."""
    stat = counters(END, 900)
    account = Account(
        base=counters(START, 500), last=replace(stat, stat=replace(stat.stat, nr_throttled=throttled)), ledger_ns=900
    )
    files = {"before": {**FILES.before, "/pods/old": OLD}, "after": (*FILES.after, replace(OLD, at_ns=END))}
    found = built(
        replace(FRAME, subjects=(FIRST, *FRAME.subjects)),
        but(
            replace(FILES, **files),  # type: ignore[arg-type]
            replace(BANDWIDTH, accounts={**BANDWIDTH.accounts, "/pods/old": account}),
        ),
    )
    assert all(spot.claim == "db" for spot in found.coverage.blindness)
    return tuple(witness for spot in found.coverage.blindness for witness in spot.witnesses)


def test_the_life_before_is_not_judged_where_it_was_throttled() -> None:
    """A container that restarts has its claim's name in another cgroup: what is judged by that name is the last one.

    A life that nobody held leaves no doubt, and its files are judged (``validators/queries/earlier_life.py``).
    """
    assert anew(0) == ()
    assert anew(3) == (Witness.BANDWIDTH, Witness.SLOTS)
    assert anew(None) == (Witness.BANDWIDTH, Witness.SLOTS)


def test_a_life_that_was_over_before_the_window_leaves_no_doubt() -> None:
    """Its cgroup is gone when the window opens, and it has run nothing since: who follows the node learns it later.

    One that ran, and whose counters nobody read, may have been throttled.
    """
    frame = replace(FRAME, subjects=(FIRST, *FRAME.subjects))
    gone = Account(base=None, last=None, ledger_ns=0)
    over = replace(BANDWIDTH, accounts={**BANDWIDTH.accounts, "/pods/old": gone})
    ran = replace(SWITCHES, rows={**SWITCHES.rows, LOST: [SWITCHES.rows[DB][1]]})

    assert built(frame, but(over)).coverage.blindness == ()
    assert [spot.claim for spot in built(frame, but(over, ran)).coverage.blindness] == ["db"]
    assert [spot.claim for spot in built(frame, QUIET).coverage.blindness] == ["db"]
