"""The container runtimes that a kubelet's node is made of here: what holds for one must hold for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.containerd_node import CONTAINERD
from tests.integration.cri_node import Runtime
from tests.integration.crio_node import CRIO
from toolkit.model.cpuset import CpuSet

RUNTIMES = (CONTAINERD, CRIO)


def need(runtime: Runtime) -> CpuSet:
    """Skip where a part of it is missing, or CPU 0 or 1. :returns: the CPUs that are online."""
    runtime.need()
    online = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text().strip())
    if not {0, 1} <= set(online):
        pytest.skip("CPUs 0 and 1 are not online")
    return online
