"""An interrupt while the verbs are imported, a third of a second from the start on."""

from __future__ import annotations

import subprocess
import sys

PLANTED = """
import sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "toolkit.cli.main":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
from toolkit.__main__ import main
main()
"""


def test_an_interrupt_before_there_are_verbs_is_one_line() -> None:
    """As later: one line and exit code 130."""
    done = subprocess.run([sys.executable, "-c", PLANTED], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "pinproof: interrupted\n")
