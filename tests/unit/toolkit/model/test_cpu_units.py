"""Shares and weights, and systemd's quota: formulas against values that others published."""

from __future__ import annotations

import pytest

from toolkit.model.claims import NO_QUOTA
from toolkit.model.cpu_units import linear_weight, logarithmic_weight, shares_of_weight, systemd_quota


@pytest.mark.parametrize(
    ("shares", "linear", "logarithmic"),
    [
        (2, 1, 1),
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


@pytest.mark.parametrize(("weight", "shares"), [(1, 10), (39, 399), (100, 1024), (10_000, 102_400)])
def test_the_kernels_own_ratio(weight: int, shares: int) -> None:
    """Weight 100 and shares 1024 are the defaults of the two hierarchies."""
    assert shares_of_weight(weight) == shares


@pytest.mark.parametrize(
    ("quota", "period", "rounded"),
    [(1100, 100_000, 2000), (1500, 100_000, 2000), (12_500, 100_000, 13_000), (33_300, 100_000, 34_000),
     (333_300, 100_000, 334_000), (50_000, 100_000, 50_000), (1250, 10_000, 1300), (10_000, 33_333, 10_333),
     (NO_QUOTA, 100_000, NO_QUOTA)],
)  # fmt: skip
def test_systemd_rounds_up_to_one_percent(quota: int, period: int, rounded: int) -> None:
    """F61: what a systemd driver sets is up to 82 % more than what the kubelet computed."""
    assert rounded == systemd_quota(quota, period)
