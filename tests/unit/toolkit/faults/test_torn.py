"""Torn checkpoints: the file is whole and its checksum right, and a kubelet refuses to start over it."""

from __future__ import annotations

import pytest

from toolkit.allocation.admission import StartupError
from toolkit.allocation.checkpoint.cpu import read_cpu_checkpoint, write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Checkpoints, Node
from toolkit.errors import InputError
from toolkit.faults.torn import Tear, torn
from toolkit.kubernetes.node_config import read_settings
from toolkit.model.cpuset import CpuSet

GIB = 1 << 30
STATE = CpuState(
    policy_name="static",
    default=CpuSet.parse("0-3,5"),
    entries={"uid-a": {"db": CpuSet.parse("4")}, "uid-b": {"web": CpuSet.parse("6-7")}},
)


def started(text: str) -> Node:
    """A kubelet on a machine of 8 CPUs that finds this state file."""
    machine = Machine.from_vector(
        {"cpus": [[cpu, cpu, 0, 0, 0] for cpu in range(8)], "numa": [{"id": 0, "memory": 16 * GIB}]}
    )
    config = read_settings({"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}, "kubelet")
    return Node(config, machine, checkpoints=Checkpoints(cpu=text))


@pytest.mark.parametrize(
    ("tear", "default", "owners"),
    [(Tear.DOUBLY_OWNED, "0-3,5-7", 2), (Tear.LEAKED, "0-3,5", 1)],
)
@pytest.mark.parametrize("pod_level", [False, True])
def test_half_of_a_change(tear: Tear, default: str, owners: int, pod_level: bool) -> None:
    """CPUs are in both sets or in neither; version and checksum are as a kubelet writes them."""
    found = read_cpu_checkpoint(torn(write_cpu_checkpoint(STATE, pod_level=pod_level), tear, "file"), "file")

    assert (found.checksum_ok, found.default, len(found.entries)) == (True, default, owners)


@pytest.mark.parametrize("tear", Tear)
def test_a_kubelet_refuses_it(tear: Tear) -> None:
    """The simulated kubelet does not start over either half (kubernetes#84783)."""
    whole = started(write_cpu_checkpoint(STATE, pod_level=False))
    assert whole.cpu_state.default == STATE.default
    with pytest.raises(StartupError) as refused:
        started(torn(write_cpu_checkpoint(STATE, pod_level=False), tear, "file"))
    assert refused.value.stage == "cpu-manager-start"


def test_nothing_to_tear() -> None:
    """A pool that nothing was taken from cannot be torn, and neither can what is no checkpoint."""
    empty = write_cpu_checkpoint(CpuState(policy_name="static", default=CpuSet.parse("0-3")), pod_level=False)
    with pytest.raises(InputError, match="no container owns CPUs"):
        torn(empty, Tear.LEAKED, "file")
    with pytest.raises(InputError):
        torn("{}}", Tear.LEAKED, "file")
