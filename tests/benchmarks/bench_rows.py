"""What reading the ledger's rows, and the slots of CPU time, costs where many CPUs are *possible* and few are there.

Run as root: ``python tests/benchmarks/bench_rows.py [--claims 220] [--possible 1 2 16 128]``. The number of possible
CPUs is the kernel's and cannot be chosen, so each row is a value of a plain array that is as long as a per-CPU map's
would be: the system call copies the same bytes, and what is decoded is the same. Prints one JSON document, CPU time in
milliseconds: of all CPUs there (``online``), and of the two CPUs that ever were (``two``). Slots are read every 2.5 s.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import time

from probes.bpfsys import Map, bpf
from probes.switches.records import SLOTS, Row
from probes.switches.rows import Rows
from probes.switches.spreads import Spreads

_MAP_CREATE, _ARRAY = 0, 2
TURNS = 50


def table(claims: int, size: int) -> Map:
    """Make an array with two values a claim, each of so many bytes."""
    fd = bpf(_MAP_CREATE, struct.pack("=IIIII", _ARRAY, 4, size, claims * 2, 0))
    return Map(fd, 4, size)


def cost_ms(rows: Rows, spreads: Spreads, claims: int) -> dict[str, float]:
    """Return what one turn costs: every claim's slots, all its rows (both when a window ends)."""
    found = {}
    for name, read in (("slots", spreads.read), ("rows", rows.of_each)):
        began_ns = time.process_time_ns()
        for _ in range(TURNS):
            read(range(claims), 0)
        found[name] = round((time.process_time_ns() - began_ns) / TURNS / 1e6, 2)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--claims", type=int, default=220)
    parser.add_argument("--possible", type=int, nargs="+", default=[1, 2, 16, 128])
    options = parser.parse_args()
    found: dict[str, object] = {}
    for possible in options.possible:
        made = table(options.claims, Row.LAYOUT.size * possible)
        slots = table(options.claims, SLOTS * 8)
        there = {"online": possible, "two": min(2, possible)}
        of_these = {}
        for name, online in there.items():
            rows = Rows(made, options.claims)
            rows.reach(online)
            of_these[name] = cost_ms(rows, Spreads(slots, rows, options.claims), options.claims)
        found[str(possible)] = of_these
        os.close(made.fd)
        os.close(slots.fd)
    print(json.dumps({"claims": options.claims, "row_bytes": Row.LAYOUT.size, "ms_by_possible_cpus": found}, indent=2))


if __name__ == "__main__":
    main()
