"""What was given back is the kernel's again: a watch does not grow by what each window made and dropped."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROBE = """
import resource, sys
from pathlib import Path
from toolkit.host.allocator import give_memory_back
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
if sys.argv[1] == "set":
    give_memory_back()
for _ in range(3):
    large = bytearray(20 << 20)
    del large
# As large pieces come and go, one small one that is kept lies behind them.
pieces = [bytearray(2 << 20) for _ in range(30)]
kept = [bytearray(200_000) for _ in range(2)]
before = resident()
del pieces
print(before - resident())
"""


@pytest.mark.parametrize(("how", "given_back"), [("set", True), ("not", False)])
def test_large_pieces_are_given_back(how: str, *, given_back: bool) -> None:
    """Once one of 20 MB was given back the C library keeps pieces of 2 MB, unless it is told not to."""
    done = subprocess.run([sys.executable, "-c", PROBE, how], capture_output=True, text=True, check=True)

    assert (int(done.stdout) > 50 << 20) is given_back
