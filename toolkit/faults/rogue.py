"""The rogue task: ``rogue.py CPU`` pins itself to a CPU and takes half of it, in pieces of 2 ms, until it is killed.

Runs alone, with the standard library only.
"""

import os
import sys
import time

PIECE_NS = 2_000_000


def main() -> None:
    """Pin, say the name, work and sleep in turn."""
    os.sched_setaffinity(0, {int(sys.argv[1])})
    with open("/proc/self/comm", "w", encoding="ascii") as stream:  # noqa: PTH123 - as the other loads
        stream.write("pinproof-rogue")
    while True:
        end = time.monotonic_ns() + PIECE_NS
        while time.monotonic_ns() < end:
            pass
        time.sleep(PIECE_NS / 1e9)


if __name__ == "__main__":
    main()
