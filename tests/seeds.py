"""What random tests start from: the same in CI each day, so that its answer depends on the commit; anew elsewhere."""

from __future__ import annotations

import os
import time

SOAK = os.environ.get("PINPROOF_SOAK") == "1"
"""``make soak``: the full lengths and counts."""
SEED = int(
    os.environ.get("PINPROOF_SEED") or (12 if os.environ.get("CI") and not SOAK else time.time_ns() // 1_000_000_000)
)
"""``PINPROOF_SEED`` repeats a run."""


def examples(count: int) -> int:
    """Return how many examples of made-up input are tried: so many, in ``make soak`` twenty times as many."""
    return count * 20 if SOAK else count
