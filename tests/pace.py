"""How much slower than usual the machine is that tests run on: an emulated one needs longer windows and deadlines.

Only tests that are run inside guests of the lab ask for it; ``PINPROOF_TEST_PACE`` says it there.
"""

from __future__ import annotations

import os

PACE = float(os.environ.get("PINPROOF_TEST_PACE", "1"))
"""Windows, periods and deadlines are so many times as long."""
