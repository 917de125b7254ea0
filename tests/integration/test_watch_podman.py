"""``claims`` and ``watch --podman`` with a real podman: pods, its socket, and an update that an old one forgets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.probe_lab import wait_for
from tests.integration.sleeper_image import image
from tests.json_lines import result_in
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet

ONLINE = CpuSet.of(os.sched_getaffinity(0))
ONE, TWO = min(ONLINE), max(ONLINE)
NAME = "localhost/pinproof-sleeper:1"
PODMAN = shutil.which("podman")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(PODMAN is None or shutil.which("runc") is None, reason="podman or runc is not installed"),
    pytest.mark.skipif(len(ONLINE) < 2, reason="a set must have two values"),
]


@dataclass(frozen=True)
class Podman:
    """podman with storage of its own. :param environment: in which the program of that name is it."""

    folder: Path
    environment: dict[str, str]

    def __call__(self, *words: str | Path) -> str:
        command = [str(self.folder / "bin/podman"), *map(str, words)]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=60, check=False, cwd=self.folder
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def pinproof(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "toolkit", *map(str, words)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def claims(self, *words: str | Path) -> tuple[dict[str, dict[str, Any]], str]:
        done = self.pinproof("claims", "--podman", *words, "--json")
        assert done.returncode == 0, done.stderr
        return {row["name"]: row for row in json.loads(done.stdout)["claims"]}, done.stderr

    def watch(self, *words: str | Path) -> tuple[dict[tuple[str, str], dict[str, Any]], str]:
        """Watch for some seconds; returns the verdicts by rule and subject, and what was said."""
        runs = self.folder / "runs"
        done = self.pinproof("watch", "--podman", *words, "--duration", "4", "--json", "--output", runs)
        assert done.returncode in (0, 1, 3), done.stderr
        return {(one["rule"], one["subject"]): one for one in result_in(done.stdout)["verdicts"]}, done.stderr


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    """podman with the image of one program; everything that it made is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="pp-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "bin").mkdir()
        own = f"--root {folder}/storage --runroot {folder}/run --runtime runc --cgroup-manager cgroupfs"
        (folder / "bin/podman").write_text(f'#!/bin/sh\nexec {PODMAN} {own} "$@"\n')
        (folder / "bin/podman").chmod(0o755)
        # Where limits may not be raised podman's own defaults are refused.
        (folder / "conf").write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n')
        (folder / "image.tar").write_bytes(image(folder).archive(NAME))
        path = f"{folder}/bin:{os.environ['PATH']}"
        made = Podman(folder, os.environ | {"PATH": path, "CONTAINERS_CONF": str(folder / "conf")})
        made("load", "-i", folder / "image.tar")
        try:
            yield made
        finally:
            made("pod", "rm", "--all", "--force", "--time", "0")
            made("rm", "--all", "--force", "--time", "0")
            subprocess.run(["umount", str(folder / "storage/overlay")], capture_output=True, check=False)


@pytest.fixture
def container(podman: Podman) -> Iterator[str]:
    """A container that works on one CPU."""
    podman("run", "-d", "--name", "box", "--network", "none", "--cpuset-cpus", str(ONE), NAME, "work")
    yield "box"
    podman("rm", "--force", "--time", "0", "box")


def test_limits_of_a_pod_are_promised(podman: Podman) -> None:
    """podman writes them to the pod's cgroup alone: they are judged there, and what another program makes of them."""
    infra = ("--infra-image", NAME, "--infra-command", "/sleeper")
    limits = ("--cpus", "0.5", "--cpuset-cpus", str(ONE), "--memory", "64m")
    pod = podman("pod", "create", "--name", "shop", *infra, "--network", "none", *limits)
    try:
        podman("run", "-d", "--pod", "shop", "--name", "till", NAME, "work")
        claims, _ = podman.claims()
        own, till = claims["shop/(pod)"], claims["till"]
        assert (own["cgroup"], own["kind"]) == (f"/libpod_parent/{pod}", "pod")
        assert (own["cpus"], own["quota_us"], own["period_us"], own["memory_bytes"]) == (
            str(ONE),
            50_000,
            100_000,
            64 << 20,
        )
        assert (till["cpus"], till["quota_us"]) == (str(ONE), None)

        honest, _ = podman.watch()
        assert {honest[rule, "shop/(pod)"]["outcome"] for rule in ("applied", "quota-throttling")} == {"passed"}
        assert honest["affinity-mask", "till"]["outcome"] == "passed"

        cpuset = cgroupfs.detect().controller_dir("cpuset") / own["cgroup"].lstrip("/") / "cpuset.cpus"
        cpuset.write_text(f"{ONE},{TWO}")
        broken, _ = podman.watch()
        assert broken["applied", "shop/(pod)"]["outcome"] == "failed"
    finally:
        podman("pod", "rm", "--force", "--time", "0", "shop")
        # podman 4.3 leaves the pod's empty cgroup in hierarchies without its controllers.
        for left in Path("/sys/fs/cgroup").glob(f"*/libpod_parent/{pod}"):
            left.rmdir()


def test_its_socket_says_where_containers_are(podman: Podman, container: str) -> None:
    """Its own API, not docker's; the cgroup is the one that the program names."""
    socket = podman.folder / "socket"
    with subprocess.Popen(
        [podman.folder / "bin/podman", "system", "service", "--time", "0", f"unix://{socket}"], env=podman.environment
    ) as service:
        try:
            wait_for(socket.is_socket, "podman listens", 30)
            claims, said = podman.claims(socket)
            assert claims == podman.claims()[0]
            assert claims[container]["observed"] == {"cpuset.cpus.effective": str(ONE)}
            assert said == ""
            verdicts, _ = podman.watch(socket)
        finally:
            service.terminate()
    assert {verdicts[rule, container]["outcome"] for rule in ("applied", "cpuset-containment")} == {"passed"}


def test_an_update_that_podman_forgets_is_named(podman: Podman, container: str) -> None:
    """Before 5.0: nothing is passed, and the verdict and a line say why. Since then its word follows."""
    version = podman("version", "--format", "{{.Client.Version}}")
    podman("update", "--cpuset-cpus", str(TWO), container)
    claims, said = podman.claims()
    verdicts, lines = podman.watch()
    if int(version.partition(".")[0]) >= 5:
        assert (claims[container]["cpus"], said) == (str(TWO), "")
        assert verdicts["applied", container]["outcome"] == "passed"
        return
    why = f"podman {version} does not record what `podman update` changes"
    assert f"not read: {container}: {why}" in said
    assert f"not read: {container}: podman {version}" in lines
    for rule in ("applied", "cpuset-containment", "affinity-mask"):
        assert (verdicts[rule, container]["outcome"], why in verdicts[rule, container]["reason"]) == ("failed", True)
