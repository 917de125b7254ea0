"""Where all pods are: known on a node without a pod, too, and where they are if a node has two such cgroups."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.follow import KubeletSource
from toolkit.sources.kubelet.pod_paths import place_of, root_of
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import reading_of
from toolkit.sources.places import Places

SLICE = "kubepods.slice"
POD = f"{SLICE}/kubepods-burstable.slice/kubepods-burstable-pod1.slice"


@pytest.mark.parametrize(
    ("paths", "root"),
    [
        (("kubepods",), "/kubepods"),
        ((SLICE, f"{SLICE}/kubepods-burstable.slice"), f"/{SLICE}"),
        (("kubelet/kubepods/burstable",), "/kubelet/kubepods"),
        (("kubepods", SLICE, POD), f"/{SLICE}"),
        (("my-kubepods", "my-kubepods/kubepods", "my-kubepods/kubepods/burstable"), "/my-kubepods/kubepods"),
        (("my-kubepods", "my-kubepods/kubepods"), "/my-kubepods/kubepods"),
        (("kubepods/pod1/c", "kubepods/pod1/c/kubelet/kubepods/pod2/c"), "/kubepods"),
        (("system.slice",), None),
        ((), None),
    ],
)
@pytest.mark.parametrize("mount", ["", "cpuset/"])
def test_of_the_cgroups_that_a_node_has(paths: tuple[str, ...], root: str | None, mount: str) -> None:
    """With or without a pod, below any directory; a root that another driver left behind is not where the pods are."""
    files = {f"cgroup/{mount}{path}/cpuset.cpus": b"0-3\n" for path in paths}
    assert node_claims(reading_of(files)).claims.pods_root == root


def test_a_path_says_which_root_it_is_in() -> None:
    """The root itself is no pod's place."""
    assert (root_of("/a/kubepods/pod1/c"), root_of("/kubepods"), root_of("/a")) == ("/a/kubepods", "/kubepods", None)
    place = place_of("/a/kubepods/pod1/c")
    assert place is not None
    assert (place.root, place.pod, place_of("/kubepods")) == ("/a/kubepods", "/a/kubepods/pod1", None)


@pytest.mark.parametrize(
    ("path", "uid", "partition"),
    [
        ("/kubepods/system/burstable/podu-1/c1", "u-1", True),
        ("/kubepods/system/podu-1/c1", "u-1", True),
        (
            "/kubepods.slice/kubepods-system.slice/kubepods-system-podu_1.slice/cri-containerd-c1.scope",
            "u-1",
            True,
        ),
        ("/kubepods/burstable/podu-1/c1", "u-1", False),
    ],
)
def test_pods_of_the_systems_partition(path: str, uid: str, *, partition: bool) -> None:
    """A second tree of classes below ``kubepods`` (v1.37, KEP-5894)."""
    place = place_of(path)
    assert place is not None
    assert (place.pod_uid, place.id, place.partition) == (uid, "c1", partition)
    assert place_of("/kubepods/system/burstable") is None
    assert root_of("/kubepods/system/burstable") == "/kubepods"


def test_a_live_node_without_a_pod(tmp_path: Path) -> None:
    """Followed from its first reading on."""
    (tmp_path / "var/lib/kubelet").mkdir(parents=True)
    state = CpuState(policy_name="static", default=CpuSet.parse("0-3"), entries={})
    (tmp_path / "var/lib/kubelet/cpu_manager_state").write_text(write_cpu_checkpoint(state, pod_level=False))
    (tmp_path / "sys/fs/cgroup/kubepods").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/kubepods/cpuset.cpus").write_text("0-3\n")

    reading = KubeletSource(Places(root=tmp_path)).read()

    assert (reading.claims.pods_root, reading.claims.claims) == ("/kubepods", ())


CONFIG = b"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: cgroupfs\n"


@pytest.mark.parametrize(
    ("answer", "version", "root"),
    [
        ({"linux": {"cgroupDriver": "SYSTEMD"}}, "v1.36.2", f"/{SLICE}"),
        ({"linux": {"cgroupDriver": "CGROUPFS"}}, "v1.36.2", "/kubepods"),
        ({"linux": {"cgroupDriver": "SYSTEMD"}}, "", f"/{SLICE}"),
        ({"linux": {"cgroupDriver": "SYSTEMD"}}, "v1.30.4", "/kubepods"),
        ({"linux": {"cgroupDriver": "UNKNOWN"}}, "v1.36.2", "/kubepods"),
        ({"linux": 7}, "v1.36.2", "/kubepods"),
        (None, "v1.36.2", "/kubepods"),
    ],
)
def test_the_runtime_names_the_driver(answer: object, version: str, root: str) -> None:
    """Of two trees without a container that of the driver counts: the runtime's, for a kubelet that asks for it."""
    files = {f"cgroup/{path}/cpuset.cpus": b"0-3\n" for path in ("kubepods", SLICE)}
    files |= {"kubelet/config.yaml": CONFIG, "node.json": json.dumps({"runtimeConfig": answer}).encode()}
    files |= {"capture.json": json.dumps({"kubelet_version": version}).encode()}

    assert node_claims(reading_of(files)).claims.pods_root == root
