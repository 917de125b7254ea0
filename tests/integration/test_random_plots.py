"""Moves, forks, hops, io_uring, cgroups made again and stops of the observer at once: nothing missed, nothing invented.

``PINPROOF_SOAK=1`` makes it 30 minutes long (``PINPROOF_SOAK_MINUTES`` another length) with a seed of its own;
``PINPROOF_SEED`` repeats from one window on.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.account import Deed, Left
from tests.integration.account_compared import is_due_to_leaves
from tests.integration.plot_windows import (
    CONTAINMENT,
    EXCLUSIVE,
    HEALTH,
    HOMES,
    MASK,
    Said,
    disagreements,
    inside,
    stage,
    through_the_verb,
)
from tests.integration.plots import plot
from tests.seeds import SEED, SOAK
from toolkit.session.engine.prepared import Prepared

pytestmark = pytest.mark.integration

SECONDS = 60.0 * float(os.environ.get("PINPROOF_SOAK_MINUTES", "30"))
VERB_EVERY = 10
KINDS = ((False, False), (True, True), (True, False))
"""A short run has of every kind one: inside, through the verb and stopped there, through the verb."""
UNDECIDED = 0.02
"""Of the windows; of fewer than 50 one may be, since they cannot show a share of 2 %: 4 of 470 were (0.9 %), and at
that rate both of a short run are once in twelve thousand runs."""
JUDGED = (CONTAINMENT, EXCLUSIVE, MASK, HEALTH)
"""The rules that a plot decides; the others have nothing to judge here, or say so."""
TIMES = ("too little", "too much")
"""How a line begins that is about a time: what was missed or invented is not."""
AGAIN = 2
STRUCK = 0.001
"""Of the stays: 3 of 25,990 were measured wrong once in 28 minutes, none of them again in 30 repetitions."""
LONG_STOP_S = 1.0
"""A gap between two scans of the masks that is not short by any bound."""


def undecided(said: Said, left: tuple[Left, ...]) -> list[str]:
    """Return why this window is not decided, a line for each verdict; a claim's own planted leaves are right doubts."""
    return [
        f"{rule} {subject}: {reason}"
        for rule, subject, reason in said.of("undecided")
        if rule in JUDGED and not is_due_to_leaves(subject, reason, left, HOMES)
    ]


def blind(said: Said, stop_s: float) -> list[str]:
    """A stopped observer saw no masks for a while: no rule about masks may have passed."""
    if stop_s < LONG_STOP_S:
        return []
    return [
        f"missed: {rule} of {subject} passed, stopped for {stop_s:.2f} s"
        for rule, subject, _ in said.of("passed")
        if rule == MASK
    ]


def kinds() -> Iterator[tuple[bool, bool]]:
    """Give the kind of each window: whether it is watched through the verb, and whether that is stopped."""
    if not SOAK:
        yield from KINDS
        return
    end = time.monotonic() + SECONDS
    for number in itertools.count():
        if time.monotonic() > end:
            return
        by_verb = number % VERB_EVERY == VERB_EVERY - 1
        yield by_verb, by_verb and number // VERB_EVERY % 2 == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What came of one window. ``stays``, ``left``: that were planted; ``undecided``: why, if it was not stopped."""

    where: str
    found: tuple[str, ...]
    deeds: tuple[Deed, ...]
    stays: int
    left: int
    undecided: tuple[str, ...]

    def times_off(self) -> set[str]:
        """Return whose time was measured wrong, if that is all that is wrong."""
        off = {line.split(": ", 1)[1].partition(" [")[0] for line in self.found if line.startswith(TIMES)}
        return off if all(line.startswith(TIMES) for line in self.found) else set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """How a window is watched: in this process, or by ``watch``, which may be stopped meanwhile."""

    director: Path
    folder: Path
    probes: Prepared
    prefix: str

    def show(self, seed: int, *, verb: bool, stop: bool) -> Shown:
        """Perform the plot of a seed under observation, and compare."""
        with stage(self.prefix) as made:
            one = plot(seed, made)
            if verb:
                folder = self.folder / f"{seed}-{time.monotonic_ns()}"
                deeds, said = through_the_verb(made, one, self.director, folder, self.prefix, stop=stop)
            else:
                deeds, said = inside(made, one, self.director, self.probes, self.prefix)
            found, true = disagreements(made, deeds, said)
        if stop:
            found += blind(said, one.stop_s)
        how = f"{'watch' if verb else 'inside'}{', stopped' if stop else ''}"
        return Shown(
            where=f"seed {seed} ({how}; {one.scenes})",
            found=tuple(found),
            deeds=tuple(deeds),
            stays=sum(row.stays for row in true.outside.values()),
            left=len(true.left),
            undecided=() if stop else tuple(undecided(said, true.left)),
        )

    def shown(self, seed: int, *, verb: bool, stop: bool) -> tuple[Shown, int]:
        """Show a window, again if nothing but times is off; returns the last one, and how many times came right then.

        The host stops a CPU inside a switch, between the clock that the ledger reads and perf's, and this kernel's
        hidden threads take away what was not yet written down (perf_account.py). Both strike where they like; a figure
        that is wrong by what the plot does is wrong again.
        """
        first = self.show(seed, verb=verb, stop=stop)
        off = first.times_off()
        for _ in range(AGAIN if off else 0):
            again = self.show(seed, verb=verb, stop=stop)
            print(*(f"{first.where}: {line}" for line in first.found), sep="\n", flush=True)
            if not again.found:
                return again, len(off)
            if not again.times_off() or again.times_off() & off:
                return again, 0
            off |= again.times_off()
        return first, 0


def test_random_plots(director: Path, tmp_path: Path, kept: Prepared) -> None:
    """0 missed, 0 invented, at most 2 % of the windows in which the observer was not stopped undecided."""
    if sorted(os.sched_getaffinity(0))[:2] != [0, 1]:
        pytest.skip("plants are made on CPUs 0 and 1")
    wrong: list[str] = []
    doubts: Counter[str] = Counter()
    count: Counter[str] = Counter()
    prefix = f"pinproof-plot-{os.getpid()}"
    door = Door(director=director, folder=tmp_path, probes=kept, prefix=prefix)
    for number, (by_verb, stopped) in enumerate(kinds()):
        one, struck = door.shown(SEED + number, verb=by_verb, stop=stopped)
        count["stopped windows" if stopped else "windows"] += 1
        count["through watch"] += by_verb
        count["moves"] += sum(each.action.verb == "write" for each in one.deeds)
        count["stays"] += one.stays
        count["leaves"] += one.left
        count["undecided"] += bool(one.undecided)
        count["times off once"] += struck
        for kind in ("missed", "invented"):
            count[kind] += sum(line.startswith(kind) for line in one.found)
        doubts.update(one.undecided)
        for line in one.found + one.undecided:
            print(f"{one.where}: {line}", flush=True)
        if one.found:
            (tmp_path / f"{SEED + number}.txt").write_text("".join(f"{each}\n" for each in one.deeds))
        wrong += [f"{one.where}: {line}" for line in one.found]
    share = count["undecided"] / max(1, count["windows"])
    print(f"random plots from seed {SEED}: {dict(count)}, {len(wrong)} disagreements, undecided {share:.1%}")
    print(*(f"  {times} x {reason}" for reason, times in doubts.most_common(20)), sep="\n")
    assert wrong == [], "\n".join(wrong)
    assert count["undecided"] <= max(1, UNDECIDED * count["windows"]), doubts.most_common(5)
    assert count["times off once"] <= max(1, STRUCK * count["stays"])
