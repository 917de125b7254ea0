"""A container that begins anew within a window, in another cgroup: what is kept of its life before."""

from __future__ import annotations

from dataclasses import replace

from probes.cgroups.lives import Account, Ended
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
    START,
    SWITCHES,
    built,
    but,
    counters,
)
from toolkit.model.evidence import EndedUse, Evidence

CGROUP = "/pods/old"
FIRST = Watched(claim=replace(CLAIM, cgroup=CGROUP), ident=LOST, cpus=ONLINE, present=False)
OLD = replace(BEFORE, cgroup=CGROUP)
TWO_LIVES = replace(FRAME, subjects=(FIRST, *FRAME.subjects))
SPENT_NS = 9_000
RAN = replace(SWITCHES, rows={**SWITCHES.rows, LOST: [SWITCHES.rows[DB][1]]})
"""The life before ran for so long, by the ledger."""


def of_before(account: Account, *, ran: bool = True) -> Evidence:
    """Let ``db`` begin anew; the life before was watched from before the window to 700 ns in it."""
    ended = {LOST: Ended(account=account, base_ns=0, from_ns=START - 50, to_ns=START + 700)}
    files = replace(FILES, before={**FILES.before, CGROUP: OLD}, after=(*FILES.after, replace(OLD, at_ns=END)))
    return built(TWO_LIVES, but(files, replace(BANDWIDTH, ended=ended), *([RAN] if ran else [])))


def read_twice(throttled: int) -> Account:
    last = counters(START + 600, 8_500)
    return Account(
        base=counters(START, 500),
        last=replace(last, stat=replace(last.stat, nr_throttled=throttled)),
        ledger_ns=SPENT_NS,
        unread_ns=1_000,
    )


def only(found: Evidence) -> EndedUse:
    (one,) = found.ended_use
    return one


def test_what_a_life_used_is_kept_until_its_end() -> None:
    """Its counters up to their last reading, and by the ledger what it used after that: no doubt of anything."""
    found = of_before(read_twice(throttled=3))
    use = only(found)

    assert found.coverage.blindness == ()
    assert (use.claim, use.own.cgroup, use.from_ns, use.to_ns) == ("db", CGROUP, 0, 700)
    assert (use.own.window_ns, use.own.usage_ns, use.own.nr_throttled) == (600, 8_000, 3)
    assert (use.own.bpf_usage_ns, use.own.unread_ns) == (SPENT_NS - 1_000, 1_000)
    assert use.own.quota_us == OLD.quota_us
    assert [row.cgroup for row in found.bandwidth if not row.level] == [CLAIM.cgroup]


def test_of_a_life_that_was_read_once_the_ledger_knows_all() -> None:
    """It came and went between two readings, or was never read: it has no counter, and what it used is known."""
    once = counters(START, 500)
    for account in (
        Account(base=once, last=once, ledger_ns=0, unread_ns=SPENT_NS),
        Account(base=None, last=None, ledger_ns=0),
    ):
        own = only(of_before(account)).own
        assert (own.window_ns, own.usage_ns, own.nr_throttled) == (0, None, None)
        assert own.unread_ns == SPENT_NS


def test_a_life_that_was_over_before_the_window_is_none_of_it() -> None:
    """Its cgroup is gone when the window opens, and it has run nothing since: what follows the node learns it later."""
    gone = of_before(Account(base=None, last=None, ledger_ns=0), ran=False)

    assert gone.ended_use == ()
    assert gone.coverage.blindness == ()
