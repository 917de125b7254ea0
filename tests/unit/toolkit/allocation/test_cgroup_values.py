"""CPU requests and limits as cgroup values: formulas, pods and containers."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.allocation.cgroup_values import (
    container_values,
    milli_to_quota,
    milli_to_shares,
    pod_values,
)
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_pod
from toolkit.model.claims import NO_QUOTA


@pytest.mark.parametrize(
    ("milli", "period_us", "quota"),
    [
        (0, 100_000, NO_QUOTA),
        (1, 100_000, 1000),
        (10, 100_000, 1000),
        (11, 100_000, 1100),
        (125, 100_000, 12_500),
        (333, 100_000, 33_300),
        (500, 10_000, 5000),
    ],
)
def test_quota(milli: int, period_us: int, quota: int) -> None:
    """K-quota: proportional to the period, at least 1 ms (F60: also when the period is not 100 ms)."""
    assert quota == milli_to_quota(milli, period_us)


@pytest.mark.parametrize(
    ("milli", "shares"),
    [(10, 10), (100, 102), (250, 256), (500, 512), (1000, 1024), (16_000, 16_384), (256_000, 262_144), (0, 2)],
)
def test_shares(milli: int, shares: int) -> None:
    """K-shares: 1024 a CPU, within the kernel's bounds."""
    assert shares == milli_to_shares(milli)


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    """A pod with these containers' resources."""
    body = {"containers": [{"name": f"c{i}", "resources": c} for i, c in enumerate(containers)], **spec}
    return read_pod({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": body}, "pod")


def both(cpu: str, memory: str = "64Mi") -> dict[str, Any]:
    """Equal requests and limits."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


CONFIG = NodeConfig()


def test_a_guaranteed_pod_is_limited_by_the_sum() -> None:
    """K-pod: the pod's cgroup has the sum of its containers' limits."""
    values = pod_values(pod(both("500m"), both("1")), CONFIG, quota_disabled=False)

    assert (values.quota_us, values.shares, values.memory_bytes) == (150_000, 1536, 128 << 20)


def test_a_burstable_pod_is_limited_only_if_every_container_is() -> None:
    """One container without a limit leaves the pod without one."""
    limited = {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}

    assert pod_values(pod(limited, limited), CONFIG, quota_disabled=False).quota_us == 200_000
    assert pod_values(pod(limited, {"requests": {"cpu": "100m"}}), CONFIG, quota_disabled=False).quota_us == NO_QUOTA


def test_best_effort_has_the_least_shares() -> None:
    """A BestEffort pod has 2 shares and no limit."""
    values = pod_values(pod({}), CONFIG, quota_disabled=False)

    assert (values.quota_us, values.shares, values.memory_bytes) == (NO_QUOTA, 2, None)


def test_exclusive_cpus_take_the_quota_away() -> None:
    """C38: neither the container nor its pod is throttled."""
    subject = pod(both("2"))

    assert pod_values(subject, CONFIG, quota_disabled=True).quota_us == NO_QUOTA
    assert container_values(subject, subject.containers[0], CONFIG, quota_disabled=True).quota_us == NO_QUOTA


def test_quotas_can_be_off_and_the_period_changed() -> None:
    """cpuCFSQuota and cpuCFSQuotaPeriod hold for pods and containers."""
    subject = pod(both("500m"))
    off, fast = NodeConfig(cpu_cfs_quota=False), NodeConfig(cpu_cfs_quota_period_us=10_000)

    assert container_values(subject, subject.containers[0], off, quota_disabled=False).quota_us == NO_QUOTA
    values = container_values(subject, subject.containers[0], fast, quota_disabled=False)
    assert (values.quota_us, values.period_us) == (5000, 10_000)


def test_containers_without_limits_inherit_their_pods_budget() -> None:
    """As seen on a real node: a container without resources has the quota and shares of its pod's budget."""
    subject = pod({}, both("1"), resources={"limits": {"cpu": "4", "memory": "1Gi"}})
    values = container_values(subject, subject.containers[0], CONFIG, quota_disabled=False)

    assert (values.quota_us, values.shares, values.memory_bytes) == (400_000, 4096, 1 << 30)
    assert pod_values(subject, CONFIG, quota_disabled=False).quota_us == 400_000
