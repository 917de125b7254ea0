"""When a followed kubelet's node counts as asked: its runtime answered, and each container that runs has a cgroup."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.toolkit.sources.socket_server import CRI, container, field, labels, sandbox, served
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.follow import KubeletSource
from toolkit.sources.places import Places

MAIN, BOX = "aa" * 32, "bb" * 32
RUNS = field(1, container(MAIN, BOX, "main", labels("u-1", "p", "main")))
POD = field(1, sandbox(BOX, "u-1", "p"))


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path that is short enough for a socket."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "c.sock"


def source(root: Path, socket: Path, *, kubepods: bool) -> KubeletSource:
    """A node without a pod, its runtime at this socket."""
    kubelet = root / "var/lib/kubelet"
    kubelet.mkdir(parents=True)
    state = CpuState(policy_name="static", default=CpuSet.parse("0-3"), entries={})
    (kubelet / "cpu_manager_state").write_text(write_cpu_checkpoint(state, pod_level=False))
    if kubepods:
        (root / "sys/fs/cgroup/kubepods").mkdir(parents=True)
        (root / "sys/fs/cgroup/kubepods/cpuset.cpus").write_text("0-3\n")
    return KubeletSource(Places(root=root, cri=f"unix://{socket}"))


@pytest.mark.parametrize("kubepods", [True, False])
def test_an_empty_node_has_answered(tmp_path: Path, socket: Path, *, kubepods: bool) -> None:
    """Nothing runs, and the runtime says so: whether there is a cgroup for it or not."""
    with served(socket, CRI, Version=field(2, "containerd"), ListContainers=b"", ListPodSandbox=b""):
        reading = source(tmp_path, socket, kubepods=kubepods).read()
    assert (reading.complete, reading.claims.claims) == (True, ())


def test_a_container_without_any_cgroup_tree_is_no_answer(tmp_path: Path, socket: Path) -> None:
    """The runtime lists it, and where it is cannot be read."""
    with served(socket, CRI, Version=field(2, "containerd"), ListContainers=RUNS, ListPodSandbox=POD):
        assert not source(tmp_path, socket, kubepods=False).read().complete


def test_a_runtime_that_cannot_be_asked_is_no_answer(tmp_path: Path, socket: Path) -> None:
    """Nothing listens: what was asked for, and what begins, is not known."""
    reading = source(tmp_path, socket, kubepods=True).read()
    assert not reading.complete
    assert any("containers" in part.part for part in reading.missing)
