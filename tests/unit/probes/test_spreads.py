"""The kernel's slots of CPU time: whatever CPUs hand over while they are read, each slot has what was run in it."""

from __future__ import annotations

import random
import struct
from collections import Counter

import pytest

from probes.switches.records import SLOTS
from probes.switches.spreads import EVERY, HORIZON, Counted, Spread
from tests.seeds import SEED

CPUS = 3


class Kernel:
    """One claim's rows and words, as ``intervals.h`` keeps them."""

    def __init__(self) -> None:
        self.words = [0] * SLOTS
        self.rows = [[0, 0, 0] for _ in range(CPUS)]
        """Of each CPU: time, what of it was handed over, the slot of the rest."""
        self.truth: Counter[int] = Counter()

    def ran(self, cpu: int, slot: int, ns: int) -> None:
        row = self.rows[cpu]
        if row[2] != slot:
            self.hand_over(cpu, slot)
        row[0] += ns
        self.truth[slot] += ns

    def hand_over(self, cpu: int, slot: int) -> None:
        row = self.rows[cpu]
        ns, row[1] = row[0] - row[1], row[0]
        if slot - row[2] < HORIZON:
            self.words[row[2] % SLOTS] += ns
        row[2] = slot

    def read_words(self) -> bytes:
        return struct.pack(f"={SLOTS}Q", *self.words)

    def read_rows(self) -> dict[int, int]:
        found: Counter[int] = Counter()
        for ns, slotted, slot in self.rows:
            if ns != slotted:
                found[slot] += ns - slotted
        return dict(found)


@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("number", range(30))
def test_each_slot_has_what_was_run_in_it(number: int, one: bool) -> None:
    """However often it is read, and however long the claim sleeps; of what is handed over while it is read, too.

    Where one CPU does that in one reading and another in the next a slot may lack something; it never has too much.
    """
    choose = random.Random(SEED + number)
    busy, every = choose.uniform(0.02, 1.0), choose.randint(1, HORIZON // 2 - 1)
    kernel, spread, found, before, slot = Kernel(), Spread(1000), Counter[int](), 1000, 1000
    for _ in range(30):
        for slot in range(slot, slot + every + 1):  # noqa: B020 - it goes on after the reading
            for cpu in range(CPUS):
                if choose.random() < busy:
                    kernel.ran(cpu, slot, choose.randint(1, 50))
        if choose.random() < 0.2:
            busy = choose.choice((0.0, 0.01, 0.5))
        began, words = slot, kernel.read_words()
        for cpu in range(1 if one else CPUS):
            if choose.random() < 0.3:  # between the two halves of a reading
                slot += choose.random() < 0.1
                kernel.ran(cpu, slot, choose.randint(1, 50))
        spread.take(Counted(words, kernel.read_rows()), slot, before)
        found += spread.taken_out(before)
        assert all(found[number] <= kernel.truth[number] for number in found)
        assert not one or all(found[number] == kernel.truth[number] for number in range(1000, before))
        before = began
    spread.take(Counted(kernel.read_words(), kernel.read_rows()), slot, before)
    found += spread.taken_out(slot + 1)
    assert all(found[number] <= kernel.truth[number] for number in found)
    assert not one or found == kernel.truth


def test_two_readings_see_a_slot_where_one_is_late() -> None:
    """What one misses the next one has, before the kernel gives the slot up."""
    assert 2 * EVERY + EVERY // 2 < HORIZON


def test_after_a_pause_it_is_known_again() -> None:
    """What ran up to then is of no claim; what is handed over late of it is in no slot."""
    kernel, spread = Kernel(), Spread(0)
    for slot in range(3 * SLOTS):
        kernel.ran(0, slot, 5)
    kernel.ran(1, slot, 7)
    spread.restart(Counted(kernel.read_words(), kernel.read_rows()), slot)
    for later in range(slot + 1, slot + 30):
        kernel.ran(0, later, 3)
    kernel.ran(1, later, 2)
    spread.take(Counted(kernel.read_words(), kernel.read_rows()), later, slot)

    assert spread.taken_out(later + 1) == {number: 5 if number == later else 3 for number in range(slot + 1, later + 1)}


@pytest.mark.parametrize("late", [HORIZON - 1, HORIZON, SLOTS, 3 * SLOTS + 1])
def test_a_claim_that_sleeps_for_long(late: int) -> None:
    """Its last slot stays in its row; when it wakes up that is in no later slot."""
    kernel, spread, before = Kernel(), Spread(10), 10
    kernel.ran(0, 10, 4)
    found = Counter[int]()
    for now in (*range(10 + EVERY, 10 + late, EVERY), 10 + late):
        if now == 10 + late:
            kernel.ran(0, now, 9)
        spread.take(Counted(kernel.read_words(), kernel.read_rows()), now, before)
        found += spread.taken_out(now + 1)
        before = now
    assert found == {10: 4, 10 + late: 9}
