"""The groups in a result's environment: what the alignment rules judge by, read from this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.host.environment import summary
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import CpuSet


@pytest.mark.parametrize("name", ["core_cpus", "socket_cpus"])
def test_groups_cover_the_online_cpus_once(name: str) -> None:
    """Every online CPU is in exactly one core and one socket, written as lists that can be read back."""
    topology = read_topology(Path("/"))
    texts = summary(topology)[name]
    assert isinstance(texts, list)
    groups = [CpuSet.parse(text) for text in texts]
    known = CpuSet.of(cpu.cpu for cpu in topology.cpus if cpu.online and cpu.core_key is not None)

    assert sum(len(group) for group in groups) == len(known)
    assert CpuSet.of(cpu for group in groups for cpu in group) == known


def test_caches_as_far_as_the_kernel_tells() -> None:
    """A machine without level 3 caches has no group; no CPU is in two."""
    texts = summary(read_topology(Path("/")))["l3_cpus"]
    assert isinstance(texts, list)
    ids = [cpu for text in texts for cpu in CpuSet.parse(text)]

    assert len(ids) == len(set(ids))
