"""A node that is followed, read for the first time while its kubelet begins; its sockets are served for real."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.toolkit.sources.edited import capture
from tests.unit.toolkit.sources.kubelet.followed_node import cpus, made_node
from tests.unit.toolkit.sources.made_node import KUBEPODS, MAIN, node, write
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.follow import KubeletSource
from toolkit.sources.live_source import SourceReading
from toolkit.sources.places import Places

pytest.importorskip("grpc")


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose path is short enough for a socket in it."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


STATE = "var/lib/own/cpu_manager_state"


def state(default: str) -> str:
    return write_cpu_checkpoint(CpuState(policy_name="static", default=CpuSet.parse(default)), pod_level=False)


def main(reading: SourceReading) -> Claim:
    (claim,) = (claim for claim in reading.claims.claims if claim.cgroup.endswith(MAIN))
    return claim


def test_a_kubelet_that_begins_promises_nothing(short_path: Path) -> None:
    """An empty pool without entries is no promise, and no state file to judge; the next reading counts."""
    root = short_path / "r"
    with node(root, short_path) as endpoint:
        said = (root / STATE).read_text()
        source = KubeletSource(Places(root=root, cri=endpoint))
        write(root, STATE, state(""))
        first = source.read()
        assert (main(first).cpus, first.state_files) == (None, ())
        write(root, STATE, said)
        assert str(main(source.read()).cpus) == "2-3"


def test_a_spoilt_file_changes_no_claim(short_path: Path) -> None:
    """What was said before holds; rule checkpoint sees the file."""
    root = short_path / "r"
    with node(root, short_path) as endpoint:
        source = KubeletSource(Places(root=root, cri=endpoint))
        before = main(source.read())
        write(root, STATE, (root / STATE).read_text().replace('"2-3"', '"0-3"'))
        spoilt = source.read()
        assert main(spoilt) == before
        (judged,) = spoilt.state_files
        assert judged.cpu is not None
        assert not judged.cpu.checksum_ok


def test_cpus_reserved_by_an_amount_are_taken_on_the_machine(short_path: Path) -> None:
    """Two of eight CPUs, a whole core; in every reading."""
    root = short_path / "r"
    with node(root, short_path) as endpoint:
        for line in capture("B1-4")["sysfs.txt"].decode().splitlines():
            path, _, text = line.partition(": ")
            write(root, path.lstrip("/"), text.replace(" | ", "\n") + "\n")
        conf = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        write(root, "etc/kubelet.d/10-x.conf", f"{conf}kubeReserved: {{cpu: 1500m}}\n")
        source = KubeletSource(Places(root=root, cri=endpoint))
        assert [str(source.read().claims.reserved_cpus) for _ in range(2)] == ["0-1", "0-1"]


@pytest.mark.parametrize("name", ["memory", "cpuset", "unified"])
def test_a_cgroup_that_is_named_as_a_controller_is_no_hierarchy(name: str) -> None:
    """A v2 host says itself that it is one: what is below its root are cgroups."""
    with made_node() as made:
        before = cpus(made.read())
        write(made.root, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n")
        write(made.root, f"sys/fs/cgroup/{name}/cgroup.procs", "")
        reading = made.read()
        signs = made.source.signs()
    assert (cpus(reading), reading.left_out, [part.part for part in reading.missing if part.part == "cgroups"]) == (
        before,
        (),
        [],
    )
    assert made.root / KUBEPODS in {sign.parent.parent.parent for sign in signs}
