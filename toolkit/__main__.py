"""The command ``pinproof``, also as ``python -m toolkit``."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Import the verbs, which takes a moment, and call them: an interrupt in that moment is one line, too."""
    try:
        from toolkit.cli.main import main as verbs
    except KeyboardInterrupt:
        sys.stderr.write("pinproof: interrupted\n")
        raise SystemExit(128 + signal.SIGINT) from None
    verbs()


if __name__ == "__main__":
    main()
