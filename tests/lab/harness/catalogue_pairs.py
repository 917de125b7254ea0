"""Which scenario of the catalogue runs in which guest: the parameters of its tests."""

from __future__ import annotations

import pytest

from tests.lab.harness import catalogue

PAIRS = [
    pytest.param(kind, (str(kind), name), id=f"{kind}-{name}") for kind, names in catalogue.kinds() for name in names
]
"""The second value names the guest, too: pytest would put equal values of several guests side by side."""
