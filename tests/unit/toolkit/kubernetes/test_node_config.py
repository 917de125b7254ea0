"""KubeletConfiguration files: what is read, what is tolerated, what is refused, and the feature gates."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.errors import InputError
from toolkit.kubernetes.feature_gates import FeatureGates
from toolkit.kubernetes.known_gates import KNOWN, LOCKED_OFF, LOCKED_ON
from toolkit.kubernetes.node_config import FIELDS, read_kubelet_configuration, read_settings
from toolkit.kubernetes.releases import GATES, MODEL

DEPENDS = "but depends on features that are disabled:"
HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def test_an_empty_configuration_has_the_kubelets_defaults() -> None:
    """Policies none, scope container, quotas on with 100 ms, 100Mi of memory kept by eviction."""
    config = read_kubelet_configuration(dict(HEAD), "config")

    assert config.cpu_manager_policy == "none"
    assert config.memory_manager_policy == "None"
    assert (config.topology_manager_policy, config.topology_manager_scope) == ("none", "container")
    assert (config.cpu_cfs_quota, config.cpu_cfs_quota_period_us) == (True, 100_000)
    assert config.eviction_hard == {"memory.available": "100Mi"}


def test_a_vector_configuration_has_no_eviction_threshold() -> None:
    """The vectors' format says that an absent evictionHard means none."""
    assert read_settings({}, "kubelet").eviction_hard == {}


def test_fields_of_other_parts_are_tolerated() -> None:
    """A real file is full of settings that no resource manager looks at."""
    config = read_kubelet_configuration(
        {**HEAD, "authentication": {"anonymous": {"enabled": False}}, "cgroupDriver": "systemd", "maxPods": 110}, "c"
    )

    assert config.cgroup_driver == "systemd"


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"reservedSystemCPUs": 0}, "config.reservedSystemCPUs"),
        ({"cpuManagerPolicyOptions": {"full-pcpus-only": True}}, "config.cpuManagerPolicyOptions.full-pcpus-only"),
        ({"featureGates": {"PodLevelResources": "true"}}, "config.featureGates.PodLevelResources"),
        ({"reservedMemory": {"numaNode": 0}}, "config.reservedMemory"),
        ({"reservedMemory": [{"numaNode": 1 << 31}]}, "config.reservedMemory[0].numaNode"),
        ({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "lots"}}]}, "config.reservedMemory[0].limits.memory"),
        ({"cpuCFSQuotaPeriod": "fast"}, "config.cpuCFSQuotaPeriod"),
        ({"cpuCFSQuota": "yes"}, "config.cpuCFSQuota"),
        ({"cpuCFSQuotaPeriod": "9" * 400 + "s"}, "config.cpuCFSQuotaPeriod"),
        ({"cpuCFSQuotaPeriod": 100}, "config.cpuCFSQuotaPeriod"),
        ({"cpuManagerPolicy": b"static"}, "config.cpuManagerPolicy"),
        ({"kubeReserved": {1: "1"}}, "config.kubeReserved"),
        ({"kubeReserved": {"cpu": None}}, "config.kubeReserved.cpu"),
        ({"reservedMemory": [{"numaNode": True}]}, "config.reservedMemory[0].numaNode"),
        ({"reservedMemory": [{}, 7]}, "config.reservedMemory[1]"),
        ({"featureGates": {"PodLevelResources": 1}}, "config.featureGates.PodLevelResources"),
    ],
)
def test_wrong_types_are_refused_with_their_path(fields: dict[str, Any], place: str) -> None:
    """The error says which field."""
    with pytest.raises(InputError) as raised:
        read_kubelet_configuration({**HEAD, **fields}, "config")

    assert str(raised.value).startswith(f"{place}:")


def test_what_is_found_and_what_is_expected_is_one_line() -> None:
    """The place, the value and what it should be; of several wrong fields the first that is read."""
    with pytest.raises(InputError) as raised:
        read_settings({"cpuManagerPolicy": 5, "topologyManagerScope": [], "evictionHard": "none"}, "kubelet")

    assert str(raised.value) == "kubelet.evictionHard: 'none'; expected a mapping of strings"
    with pytest.raises(InputError) as raised:
        read_settings({"featureGates": {"{found} a\nb": "on"}}, "kubelet")

    assert str(raised.value).endswith("b: 'on'; expected true or false")


def test_null_is_the_default() -> None:
    """Go leaves a field alone that is null."""
    assert read_settings(dict.fromkeys(FIELDS), "kubelet") == read_settings({}, "kubelet")
    assert read_settings({"reservedMemory": [{"limits": None}]}, "kubelet").reserved_memory[0].limits == {}


@pytest.mark.parametrize("document", [None, [], {"kind": "Pod"}, {**HEAD, "kind": "KubeProxyConfiguration"}])
def test_another_kind_is_refused(document: object) -> None:
    """Only a KubeletConfiguration of the known version is read."""
    with pytest.raises(InputError, match="KubeletConfiguration"):
        read_kubelet_configuration(document, "config")


@pytest.mark.parametrize(
    ("text", "us"),
    [
        *((".5s", 500_000), ("1.s", 1_000_000), ("+10ms", 10_000), ("0", 0), ("1m.5s", 60_500_000)),
        *(("5us", 5), ("5\u00b5s", 5), ("5\u03bcs", 5), ("5000ns", 5)),
    ],
)
def test_durations_that_go_reads(text: str, us: int) -> None:
    """Each form of ``time.ParseDuration``: without digits on one side of the point, a sign, either letter for micro."""
    assert read_settings({"cpuCFSQuotaPeriod": text}, "k").cpu_cfs_quota_period_us == us


@pytest.mark.parametrize("text", [".s", ".", "+", "", "5", "00", "-1s", "1 s", "5\u03bc", "1s0"])
def test_durations_that_go_refuses(text: str) -> None:
    """And one that is negative, which nothing here can mean."""
    with pytest.raises(InputError, match="a duration"):
        read_settings({"cpuCFSQuotaPeriod": text}, "k")


def test_durations() -> None:
    """Go's duration texts are understood."""
    assert read_settings({"cpuCFSQuotaPeriod": "10ms"}, "k").cpu_cfs_quota_period_us == 10_000
    assert read_settings({"cpuCFSQuotaPeriod": "0.1s"}, "k").cpu_cfs_quota_period_us == 100_000


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, None),
        ({"PodLevelResourceManagers": True}, None),
        ({"SidecarContainers": True, "KubeletCgroupDriverFromCRI": True, "WatchListClient": False}, None),
        ({"CustomCPUCFSQuotaPeriod": True, "AllAlpha": False, "AllBeta": True}, None),
        ({"PodLevelResourceManager": True}, "unrecognized feature gate: PodLevelResourceManager"),
        ({"CPUManager": True}, "unrecognized feature gate: CPUManager"),
        (
            {"Zeal": True, "SidecarContainers": False},
            (
                "[cannot set feature gate SidecarContainers to false, feature is locked to true, "
                "unrecognized feature gate: Zeal]"
            ),
        ),
        (
            {"InPlacePodVerticalScaling": False},
            "cannot set feature gate InPlacePodVerticalScaling to false, feature is locked to true",
        ),
        (
            {"PodLevelResources": False},
            f"InPlacePodLevelResourcesVerticalScaling is enabled, {DEPENDS} [PodLevelResources]",
        ),
        (
            {
                "PodLevelResources": False,
                "InPlacePodLevelResourcesVerticalScaling": False,
                "PodLevelResourceManagers": True,
            },
            f"PodLevelResourceManagers is enabled, {DEPENDS} [PodLevelResources]",
        ),
    ],
)
def test_gates_that_a_kubelet_refuses(given: dict[str, bool], problem: str | None) -> None:
    """Names that no release knows (misspelt, or gone since), locked gates and missing dependencies stop the start."""
    assert FeatureGates(given).problem() == problem


def test_gates_of_the_table_are_known() -> None:
    """The gates of the table that v1.36 has are gates of v1.36, and what is locked is known."""
    assert {gate.name for gate in GATES if gate.of(MODEL)} <= KNOWN
    assert KNOWN >= LOCKED_ON | LOCKED_OFF
    assert not LOCKED_ON & LOCKED_OFF


def test_group_gates() -> None:
    """AllAlpha switches the alpha gates of the table on, single settings win."""
    gates = FeatureGates({"AllAlpha": True, "CPUManagerPolicyAlphaOptions": False})

    assert gates["PodLevelResourceManagers"]
    assert not gates["CPUManagerPolicyAlphaOptions"]
