"""How much of an escape's time must have been seen, by the kernel's own account of the escaper."""

from __future__ import annotations

from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import EMULATED, Truth, stolen_ns


def stolen_since(cpu: int, before_ns: int) -> int:
    """Return at most how long the host has stopped a CPU since then, told to 10 ms: nothing where nothing is told."""
    told_ns = stolen_ns(cpu) - before_ns
    return told_ns + 10_000_000 if told_ns else 0


SWITCH_OUT_NS = 1_000
"""How much later than the ledger perf stops its clock at a switch out: by what is left of our program's own run.

Per switch the ledger had 0.37 us less than perf at most (escapes of 1 ms: the program is no longer in the caches), and
0.16 us more with escapes of 10 us; six runs on a quiet machine. On a busy one 0.29 us of 23 us was missing once.
"""


def least_ns(perf: PerfAccount, counted: int, truth: Truth, stolen: int, died: int = 0) -> float:
    """Return what must have been seen at least; a stop of the CPU between perf's reading and ours is in one account.

    Less what the ledger cannot know, of whose switches it ``counted`` so many (``PerfAccount.lost_ns``).

    perf reads its clock after our program has run, the ledger before: see ``SWITCH_OUT_NS``, but 100 us where a CPU is
    emulated. There the truth is what the planter found inside its escapes, between arrival and departure.
    """
    ran_ns = min(perf.on_cpu, truth.outside_ns) if EMULATED else perf.on_cpu
    return 0.99 * ran_ns - perf.switched_out * SWITCH_OUT_NS - stolen - perf.lost_ns(counted, died=died)
