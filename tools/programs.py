"""Compile the probes for the kernel that runs here, and keep them below another root: for images without a compiler.

    python -m tools.programs ROOT

They are kept as an observation would keep them (``ROOT/var/cache/pinproof``); root is needed, as for any observation.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from probes.composition import build_request
from probes.loader import load
from probes.options import ObserveOptions
from toolkit.errors import HostUnsupportedError

SIZES = (512, 2048)
"""Claims that there is room for: of a node with up to 170 containers, and with up to 680."""


def main() -> None:
    """Compile for each size."""
    root = Path(sys.argv[1])
    for claims in SIZES:
        options = replace(ObserveOptions(), max_claims=claims)
        try:
            load(build_request(Path("/"), options), root).close()
        except HostUnsupportedError as error:
            sys.exit(f"programs: {error}")


if __name__ == "__main__":
    main()
