"""Shares to weights: both formulas, against values that others published."""

from __future__ import annotations

import pytest

from validators.weights import linear_weight, logarithmic_weight


@pytest.mark.parametrize(
    ("shares", "linear", "logarithmic"),
    [
        (10, 1, 4),
        (102, 4, 17),
        (256, 10, 35),
        (512, 20, 59),
        (1024, 39, 100),
        (2000, 77, 170),  # opencontainers/runc#4896: runc 1.3.1 and 1.4.0-rc.1
        (2048, 79, 174),
        (4096, 157, 303),
        (16_384, 625, 942),
        (262_144, 10_000, 10_000),
    ],
)
def test_published_values(shares: int, linear: int, logarithmic: int) -> None:
    """docs/facts.md K-weight, and what the two versions of runc wrote."""
    assert (linear_weight(shares), logarithmic_weight(shares)) == (linear, logarithmic)


@pytest.mark.parametrize(("shares", "weight"), [(0, 1), (1, 1), (2, 1), (10**9, 10_000)])
def test_out_of_range(shares: int, weight: int) -> None:
    """Shares beyond the kernel's range count as its ends."""
    assert linear_weight(shares) == logarithmic_weight(shares) == weight
