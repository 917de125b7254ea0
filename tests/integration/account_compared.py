"""What pinproof answered about threads outside, held against the truth (account.py). Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tests.integration.account import Left, Outside
from tests.integration.perf_account import PERIOD_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What pinproof answered about one thread outside: its claim, its id, its time, how often it was switched out."""

    claim: str
    tid: int
    ns: int
    switches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLeft:
    """A thread that left its claim alive, by pinproof's answer, and when (CLOCK_MONOTONIC). Visits are none."""

    claim: str
    tid: int
    at_ns: int


def leaves_differ(expected: Iterable[Left], seen: Iterable[SeenLeft]) -> list[str]:
    """Return which leaves were missed and which were invented, a line each: claim, thread and time must fit."""
    due, lines = list(expected), []
    for row in seen:
        fits = [one for one in due if one.claim == row.claim and row.tid in one.tids]
        one = next((one for one in fits if one.from_ns <= row.at_ns <= one.to_ns), None)
        if one is None:
            lines.append(f"invented: {row.claim}: thread {row.tid} left at {row.at_ns}; it did {fits}")
        else:
            due.remove(one)
    return lines + [f"missed: {one.claim}: {one.actor} {sorted(one.tids)} left at {one.from_ns}" for one in due]


def is_due_to_leaves(subject: str, reason: str, expected: Iterable[Left], claims: Collection[str]) -> bool:
    """Return whether a verdict is undecided for nothing but tasks that left: each part names one that did.

    They left the claim that the verdict is about: another's leave is no doubt of it. A verdict that is about no claim
    rests on all. A rule that is undecided by itself, and any other doubt of its evidence, has a part of its own, and
    stands before these; so does what is only counted (``and 2 more``).
    """
    tids = {tid for one in expected if subject not in claims or one.claim == subject for tid in one.tids}
    named = [_LEFT.fullmatch(part) for part in reason.split("; ")]
    return all(found is not None and int(found[1]) in tids for found in named)


_LEFT = re.compile(
    r"[^ ,:]+ \(pid (\d+)\) left its cgroup for (?:[^ ,:]+|another cgroup), .*: what it was promised did not hold it"
)


def differences(expected: dict[tuple[str, str], Outside], seen: Iterable[Seen], hidden_arrivals: int = 0) -> list[str]:
    """Return what was missed, invented, or measured wrong, a line each.

    :param hidden_arrivals: how often threads that the kernel hides came onto a CPU meanwhile (perf_account.py). One
        that interrupts an actor costs what it ran since the sampler's last tick; perf counts that switch, the ledger
        does not, so where perf counted no more than the ledger nothing is allowed.
    """
    owner = {(claim, tid): actor for (claim, actor), row in expected.items() for tid in row.tids}
    sums: Counter[tuple[str, str]] = Counter()
    switches: Counter[tuple[str, str]] = Counter()
    lines = []
    for row in seen:
        actor = owner.get((row.claim, row.tid))
        if actor is None:
            lines.append(f"invented: {row.claim}: thread {row.tid}, {row.ns / 1e3:.1f} us")
        else:
            sums[row.claim, actor] += row.ns
            switches[row.claim, actor] += row.switches
    for key, one in sorted(expected.items()):
        ns, (least, most) = sums[key], one.bounds
        unreported = 0 if one.switched is None else max(0, min(one.switched - switches[key], hidden_arrivals))
        least -= PERIOD_NS * unreported
        if one.planted and not ns:
            lines.append(f"missed: {key[0]}: {key[1]} {sorted(one.tids)}, {one.least_ns / 1e3:.1f} us")
        elif not least <= ns <= most:
            what = "too little" if ns < least else "too much" if one.most_ns else "invented"
            lines.append(
                f"{what}: {key[0]}: {key[1]} {sorted(one.tids)}: {ns / 1e3:.1f} us, "
                f"the truth is {one.least_ns / 1e3:.1f} to {one.most_ns / 1e3:.1f} us in {one.stays} stays; "
                f"switched out {switches[key]} times, by perf {one.switched}; "
                f"{hidden_arrivals} arrivals of hidden threads"
            )
    return lines
