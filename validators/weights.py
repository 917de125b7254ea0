"""``cpu.shares`` to ``cpu.weight``: the two formulas that live on one node. Never inverted: both lose information.

Source: docs/facts.md K-weight (kubelet cgroup_manager_linux.go; opencontainers/cgroups since runc 1.3.2, crun since
1.23).
"""

from __future__ import annotations

import math

MIN_SHARES, MAX_SHARES = 2, 262_144
MAX_WEIGHT = 10_000


def linear_weight(shares: int) -> int:
    """Return the weight that the kubelet writes to pod and QoS cgroups, and older runtimes to containers."""
    clamped = min(max(shares, MIN_SHARES), MAX_SHARES)
    return 1 + (clamped - MIN_SHARES) * (MAX_WEIGHT - 1) // (MAX_SHARES - MIN_SHARES)


def logarithmic_weight(shares: int) -> int:
    """Return the weight that newer runtimes write to containers."""
    if shares <= MIN_SHARES:
        return 1
    if shares >= MAX_SHARES:
        return MAX_WEIGHT
    log = math.log2(shares)
    return math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34))


def weights_of_shares(shares: int) -> dict[str, int]:
    """Return both weights by the name of their formula."""
    return {"linear": linear_weight(shares), "logarithmic": logarithmic_weight(shares)}
