#!/usr/bin/python3 -I
"""The command pinproof, of the package pinproof."""

import sys

sys.path.insert(0, "/usr/lib/pinproof")

from toolkit.__main__ import main

main()
