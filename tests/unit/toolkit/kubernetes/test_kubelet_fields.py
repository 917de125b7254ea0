"""Fields of KubeletConfiguration: which exist, since when, and what was meant by one that does not."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.kubernetes.kubelet_fields import SINCE, field_lines, meant, odd_fields
from toolkit.kubernetes.node_config import FIELDS
from toolkit.kubernetes.releases import Series


def said(document: dict[str, Any], series: Series | None = None) -> list[str]:
    """Return the lines about a document."""
    return list(field_lines(odd_fields(document, "config.yaml"), series))


def test_every_field_that_is_read_is_one() -> None:
    """What the model and the readers of places look at is in the table."""
    assert set(SINCE) >= FIELDS
    assert {"containerRuntimeEndpoint", "staticPodPath", "podLogsDir", "cgroupRoot", "readOnlyPort"} <= set(SINCE)


def test_a_configuration_of_all_parts_has_no_line() -> None:
    """Fields of other parts, mappings with any keys, types of other libraries."""
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"cacheTTL": "0s", "enabled": True}},
        "clusterDNS": ["10.96.0.10"],
        "evictionHard": {"what.ever": "1"},
        "logging": {"options": {"json": {"infoBufferSize": "0"}}},
        "registerWithTaints": [{"key": "a", "effect": "NoSchedule"}],
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        "kernelMemcgNotification": None,
        "imageMaximumGCAge": "0s",
    }
    assert said(document) == []


@pytest.mark.parametrize(
    ("document", "lines"),
    [
        ({"reservedCpus": "0-4"}, ["reservedCpus is no field", "(did you mean reservedSystemCPUs?)"]),
        ({"reservedSystemCpus": "0-4"}, ["(did you mean reservedSystemCPUs?)"]),
        ({"cpumanagerpolicy": "static"}, ["(did you mean cpuManagerPolicy?)"]),
        ({"reservedMemory": [{"numanode": 0}]}, ["reservedMemory.numanode", "(did you mean reservedMemory.numaNode?)"]),
        ({"authentication": {"webhok": {}}}, ["(did you mean authentication.webhook?)"]),
        ({"zzz": 1}, ["zzz is no field of KubeletConfiguration: a kubelet goes on without it"]),
        ({"a\x1b[2Jb": 1}, ["is no field"]),
    ],
)
def test_a_field_that_is_none(document: dict[str, Any], lines: list[str]) -> None:
    """Its file, its name, what happens, and what was meant."""
    (line,) = said(document)
    assert line.startswith("config.yaml: ")
    assert "\x1b" not in line
    assert all(words in line for words in lines)


@pytest.mark.parametrize(
    ("series", "line"),
    [
        ((1, 35), "memoryReservationPolicy is a field since v1.36: kubelet v1.35 goes on without it"),
        ((1, 36), ""),
        (None, ""),
    ],
)
def test_a_field_of_a_later_release(series: Series | None, line: str) -> None:
    """An older kubelet goes on without it; where the version is not known nothing is said."""
    found = said({"memoryReservationPolicy": "None"}, series)
    assert found == ([f"config.yaml: {line}"] if line else [])


def test_a_hostile_file_has_few_lines() -> None:
    """A file with thousands of names."""
    assert len(said({f"field{number}": 1 for number in range(5000)})) == 64
    assert meant("x" * 5000) == ""
