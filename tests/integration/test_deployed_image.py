"""The image as the DaemonSet of ``deploy/`` runs it: a pod of a real kubelet over containerd watches that kubelet.

``make image`` builds the image, ``make kubelet`` the kubelet; ``PINPROOF_IMAGE`` and ``PINPROOF_KUBELET`` name others.
The pod is the DaemonSet's own template as a static pod: without an API server there is no service account, and what it
keeps on the node lies in a folder of this test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolkit
from tests.integration.containerd_node import CONTAINERD, Containerd
from tests.integration.cri_node import removed_again
from tests.integration.real_kubelet import RealKubelet, container, need_node, real_kubelet
from tests.pace import PACE
from tests.programs import built
from tools.deploy import FOLDER, IMAGE, PORT, ROOT, daemon_set, plain

pytestmark = [pytest.mark.integration, pytest.mark.slow]
KEPT = {"runs", "programs", "journal"}
"""Volumes that are folders of the node."""
IMPORT_S = 300.0
PROFILE = ROOT / FOLDER / "seccomp/pinproof.json"
PROFILES = Path("/var/lib/kubelet/seccomp")
"""Where a kubelet before v1.23 looks whatever its root directory is; later ones look below that."""
WINDOW_S = round(5 * PACE)


def archive() -> Path:
    """Return the image that this run was given, or that ``make image`` has built; skip where there is none."""
    return built(
        "PINPROOF_IMAGE", f"dist/pinproof-{toolkit.__version__}-full.oci.tar", "image", "`make image` builds one"
    )


@pytest.fixture(scope="module")
def kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKubelet]:
    """A kubelet of two pods, one with a CPU of its own; containerd has the image."""
    need_node(CONTAINERD)
    image, folder = archive(), tmp_path_factory.mktemp("d")
    with CONTAINERD.start(folder / "n") as node:
        assert isinstance(node, Containerd)
        assert str(IMAGE.default) in node.load(image, IMPORT_S)
        with real_kubelet(node, folder / "kubelet") as kubelet:
            kubelet.add("web", container("app", requests={"cpu": "100m"}, limits={"cpu": "500m", "memory": "64Mi"}))
            kubelet.add("db", container("main", limits={"cpu": "1", "memory": "64Mi"}))
            yield kubelet


def _pod(folder: Path, port: int, seccomp: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the container of the DaemonSet's pod and the rest of its specification."""
    spec = dict(plain(daemon_set())["spec"]["template"]["spec"])
    del spec["serviceAccountName"], spec["priorityClassName"]
    (own,) = spec.pop("containers")
    volumes = []
    for volume in spec.pop("volumes"):
        if volume["name"] in KEPT:
            volume = volume | {"hostPath": volume["hostPath"] | {"path": str(folder / volume["name"])}}
        volumes.append(volume)
    if not _root_is_shared():
        # systemd shares it. Where nothing does, a runtime refuses to follow what is mounted later.
        for mount in own["volumeMounts"]:
            mount.pop("mountPropagation", None)
    own["securityContext"]["seccompProfile"] = seccomp
    at = own["args"].index("--window")
    own["args"][at + 1] = str(WINDOW_S)
    text = json.dumps(own).replace(str(PORT), str(port))
    return json.loads(text), spec | {"volumes": volumes}


def _root_is_shared() -> bool:
    rows = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return any(row[4] == "/" and row[6].startswith("shared:") for row in rows)


def _windows(folder: Path) -> list[Path]:
    return sorted((folder / "runs").glob("**/window-*/result.json"))


@pytest.fixture
def localhost(kubelet: RealKubelet) -> Iterator[dict[str, str]]:
    """The project's own profile, where the node's kubelet finds it."""
    with removed_again(PROFILES):
        for folder in (PROFILES, kubelet.folder / "seccomp"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / PROFILE.name).write_bytes(PROFILE.read_bytes())
        yield {"type": "Localhost", "localhostProfile": PROFILE.name}


def test_the_daemon_set_watches_its_node(kubelet: RealKubelet, tmp_path: Path) -> None:
    """With the capabilities of the manifest and ``--root`` alone: claims, an honest window, and a planted drift."""
    _watches(kubelet, tmp_path, {"type": "Unconfined"})


def test_it_does_under_the_seccomp_profile(kubelet: RealKubelet, tmp_path: Path, localhost: dict[str, str]) -> None:
    """The kubelet gives the pod the project's profile, and what the watch sees is the same."""
    _watches(kubelet, tmp_path, localhost)


def _watches(kubelet: RealKubelet, tmp_path: Path, seccomp: dict[str, str]) -> None:
    own, spec = _pod(tmp_path, 19469, seccomp)
    kubelet.give("pinproof", own, **spec)
    try:
        kubelet.wait_until(lambda: len(_windows(tmp_path)) >= 2, "two windows of the pod are judged")
        honest = json.loads(_windows(tmp_path)[1].read_text())
        said = {(row["rule"], row["subject"]): row for row in honest["verdicts"]}
        db = next(subject for rule, subject in said if rule == "cpuset-containment" and subject.endswith("/main"))
        assert [row for row in honest["verdicts"] if row["outcome"] == "failed"] == []
        assert said["cpuset-containment", db]["outcome"] == "passed", said["cpuset-containment", db]["reason"]

        seen = len(_windows(tmp_path))
        file = kubelet.node.cpuset(kubelet.running("web")["app"])

        def drifted() -> bool:
            # Again and again: a kubelet as old as v1.20 repairs a cgroup at each reconcile.
            file.write_text("0-1")
            return any(
                row["outcome"] == "failed" and row["rule"] == "layers-agree" and row["subject"].endswith("/app")
                for path in _windows(tmp_path)[seen:]
                for row in json.loads(path.read_text())["verdicts"]
            )

        kubelet.wait_until(drifted, "a window says that the layers differ")
    finally:
        kubelet.remove("pinproof")
