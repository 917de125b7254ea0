"""One unit of CPU control as another: shares as a weight, a weight as shares, a quota as systemd keeps it.

Shares (cgroup v1) become a weight (v2) by two formulas that live side by side on one node: the kubelet writes its own
cgroups (pod, QoS) by the linear one, newer runtimes write containers by the logarithmic one. Neither is inverted,
because both lose information; a weight becomes shares by the kernel's own ratio.
Source: ``docs/facts.md`` K-shares, K-weight (kubelet cgroup_manager_linux.go; opencontainers/cgroups since runc 1.3.2,
crun since 1.23); ``docs/failures.md`` F60-F64 (opencontainers/cgroups systemd/common.go, ``addCpuQuota``).
"""

from __future__ import annotations

import math

from toolkit.model.claims import NO_QUOTA

MIN_SHARES = 2
MAX_SHARES = 262_144
MAX_WEIGHT = 10_000
DEFAULT_SHARES = 1024
DEFAULT_WEIGHT = 100
SYSTEMD_STEP = 100
"""systemd keeps a quota in steps of a hundredth of a CPU."""
_US_PER_S = 1_000_000
MAX_QUOTA_US = (1 << 44) - 1
"""The kernel refuses a larger quota: it shifts bandwidth by 20 bits (``kernel/sched/core.c``, MAX_BW)."""


def linear_weight(shares: int) -> int:
    """Return the weight that the kubelet writes to pod and QoS cgroups, and older runtimes to containers."""
    clamped = min(max(shares, MIN_SHARES), MAX_SHARES)
    return 1 + (clamped - MIN_SHARES) * (MAX_WEIGHT - 1) // (MAX_SHARES - MIN_SHARES)


def logarithmic_weight(shares: int) -> int:
    """Return the weight that newer runtimes write to containers: 1024 becomes 100."""
    if shares <= MIN_SHARES:
        return 1
    if shares >= MAX_SHARES:
        return MAX_WEIGHT
    log = math.log2(shares)
    return math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34))


def weights_of_shares(shares: int) -> dict[str, int]:
    """Return both weights by the name of their formula."""
    return {"linear": linear_weight(shares), "logarithmic": logarithmic_weight(shares)}


def shares_of_weight(weight: int) -> int:
    """Return the shares that have as much say as the weight: the kernel's default is 100 here and 1024 there."""
    return max(MIN_SHARES, (weight * DEFAULT_SHARES + DEFAULT_WEIGHT // 2) // DEFAULT_WEIGHT)


def systemd_quota(quota_us: int, period_us: int) -> int:
    """Return the quota that a systemd cgroup driver really sets: rounded up to 1 % of a CPU; -1 for none."""
    if quota_us <= 0:
        return NO_QUOTA
    per_second = quota_us * _US_PER_S // period_us
    step = _US_PER_S // SYSTEMD_STEP
    return -(-per_second // step) * step * period_us // _US_PER_S
