"""A real kubelet, standalone, over a private runtime: static pods, own cgroups, own folders.

It runs without an API server, on static pods in the host's network. Everything of it lies below one folder and one
cgroup, except what a kubelet writes wherever it runs, which is put back or removed: four sysctls, the pods' log
links, the directory for plugins of devices.

Source: Kubernetes documentation, "Create static Pods"; pkg/kubelet/cm/container_manager_linux.go (setupKernelTunables);
CHANGELOG-1.27, 1.31 and 1.35.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.integration.cri_node import IMAGE, SYSTEMD, Node, Runtime, remove_cgroups, removed_again
from tests.integration.cri_runtimes import need
from tests.integration.live_node import Watch
from tests.pace import PACE
from tests.programs import built

PERIOD_S = round(2 * PACE)
SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
LINKS = Path("/var/log/containers")
LOGS = Path("/var/log/pods")
PLUGINS = Path("/var/lib/kubelet/device-plugins")
"""Wherever its root directory is."""
DEADLINE_S = 120.0 * PACE


def binary() -> Path:
    """Return the kubelet that this run was given, or that ``make kubelet`` has built; skip where there is none."""
    return built(
        "PINPROOF_KUBELET", ".cache/kubelet/kubelet", "kubelet", "`make kubelet` builds one from Debian's sources"
    )


def version() -> tuple[int, int]:
    """Return the kubelet's version: major, minor."""
    said = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True).stdout
    match = re.fullmatch(r"Kubernetes v(\d+)\.(\d+)\..*\n", said)
    assert match is not None, said
    return int(match[1]), int(match[2])


def need_node(runtime: Runtime) -> None:
    """Skip where a part of such a node is missing: the kubelet, the runtime, two CPUs."""
    binary()
    need(runtime)


def drifts(file: Path, cpus: str, watch: Watch, after: int) -> bool:
    """Write a cpuset; whether a window later than this one says that the layers of a container ``app`` differ.

    To be called again and again: a kubelet as old as v1.20 repairs a cgroup at each reconcile.
    """
    file.write_text(cpus)
    return any(row[0] > after and row[2].endswith("/app") for row in watch.failed("layers-agree"))


def container(name: str, probe: bool = False, **resources: Mapping[str, str]) -> dict[str, Any]:
    """Return a container of a pod; it works for 3 ms, rests for 7 or longer. :param probe: an exec probe a second."""
    told: dict[str, Any] = {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/sleeper", "work", str(round(7 * PACE))],
        "resources": resources,
    }
    if probe:
        seconds = max(1, round(PACE))
        asked = {"exec": {"command": ["/sleeper", "probe"]}, "periodSeconds": seconds, "timeoutSeconds": seconds}
        told["readinessProbe"] = asked
    return told


class RealKubelet:
    """A running kubelet. :param folder: its root directory is below it. :param node: the runtime."""

    def __init__(self, program: Path, node: Node, folder: Path) -> None:
        self._program, self.node, self.base = program, node, folder
        self.folder = folder / "root"
        self._pods = folder / "pods"
        self.config = folder / "config.yaml"
        for path in (self.folder, self._pods):
            path.mkdir(parents=True)
        root = Path("/sys/fs/cgroup")
        hierarchies = [root] if (root / "cgroup.controllers").exists() else root.iterdir()
        for hierarchy in () if SYSTEMD else hierarchies:
            (hierarchy / node.top.strip("/")).mkdir(exist_ok=True)
        self._log = (folder / "log").open("wb")
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self, **settings: object) -> None:
        """Write the configuration file."""
        document = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "staticPodPath": str(self._pods),
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "systemd" if SYSTEMD else "cgroupfs",
            "cgroupRoot": "/" if SYSTEMD else self.node.top,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "address": "127.0.0.1",
            "healthzPort": 0,
            "evictionHard": {"memory.available": "1Mi"},
            "fileCheckFrequency": "1s",
            "cpuManagerPolicy": "static",
            "cpuManagerReconcilePeriod": f"{PERIOD_S}s",
            "systemReserved": {"cpu": "500m"},
            **settings,
        }
        if version() >= (1, 31):  # Maintenance mode of cgroup v1; without it kubelets since v1.35 refuse such a host.
            document["failCgroupV1"] = False
        self.config.write_text(yaml.safe_dump(document))

    def start(self) -> None:
        """Start the kubelet; returns when it has its state."""
        socket = f"unix://{self.node.socket}"
        command = [str(self._program), f"--config={self.config}", f"--root-dir={self.folder}"]
        command += [f"--cert-dir={self.base / 'pki'}", f"--container-runtime-endpoint={socket}", "--v=2"]
        command += [f"--image-service-endpoint={socket}", "--register-node=false"]
        command += [f"--volume-plugin-dir={self.base / 'plugins'}"]
        if version() < (1, 27):  # Flags of dockershim's time, gone with it.
            command += ["--container-runtime=remote", f"--pod-infra-container-image={IMAGE}"]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)
        self.wait_until(lambda: (self.folder / "cpu_manager_state").exists(), "a state file")

    def stop(self) -> None:
        """End the kubelet; its pods live on."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(DEADLINE_S)

    def close(self) -> None:
        """End it and close its log."""
        self.stop()
        self._log.close()

    def state(self) -> dict[str, Any]:
        """Return what the state file says."""
        document: dict[str, Any] = json.loads((self.folder / "cpu_manager_state").read_text())
        return document

    def add(self, name: str, *containers: Mapping[str, Any]) -> None:
        """Give the kubelet a static pod and wait until its containers run."""
        self.give(name, *containers)
        self.wait_until(lambda: len(self.running(name)) == len(containers), f"pod {name} runs")

    def give(self, name: str, *containers: Mapping[str, Any], **spec: object) -> None:
        """Give the kubelet a static pod. :param spec: what else its specification has."""
        self.written(name, *containers, **spec).replace(self._pods / f"{name}.yaml")

    def written(self, name: str, *containers: Mapping[str, Any], **spec: object) -> Path:
        """Write a static pod where the kubelet does not look."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "hostNetwork": True,
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": max(1, round(PACE)),
                "containers": list(containers),
                **spec,
            },
        }
        draft = self.base / f"{name}.draft.yaml"
        draft.write_text(yaml.safe_dump(pod))
        return draft

    def take(self, name: str) -> None:
        """Take a static pod away."""
        (self._pods / f"{name}.yaml").unlink()

    def remove(self, name: str) -> None:
        """Take a static pod away and wait until it is gone."""
        self.take(name)
        self.wait_until(lambda: not self.running(name), f"pod {name} is gone")

    def running(self, pod: str) -> dict[str, str]:
        """Return the ids of a pod's running containers by their names, as the runtime has them."""
        found = {}
        for one in self.node.containers():
            labels = one.get("labels", {})
            name = str(labels.get("io.kubernetes.pod.name", ""))
            if name.startswith(f"{pod}-") and one["state"] == "CONTAINER_RUNNING":
                found[str(labels["io.kubernetes.container.name"])] = str(one["id"])
        return found

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        end = time.monotonic() + DEADLINE_S
        while not condition():
            ended = self._process is not None and self._process.poll() is not None
            if ended or time.monotonic() > end:
                log = (self.base / "log").read_text(errors="replace")
                raise AssertionError(f"{'the kubelet ended' if ended else 'not in time'}: {what}\n{log[-4000:]}")
            time.sleep(0.1 * PACE)


@contextlib.contextmanager
def real_kubelet(node: Node, folder: Path, **settings: object) -> Iterator[RealKubelet]:
    """Run a kubelet; at the end no pod, cgroup, mount, link or setting of it is left, whatever went wrong."""
    program = binary()
    with contextlib.ExitStack() as undo:
        undo.enter_context(removed_again(LINKS, LOGS, PLUGINS))
        for top in [path for path in (LINKS, LOGS) if path.is_dir()]:
            undo.callback(_remove_new, top, frozenset(top.iterdir()))
        for path in (Path("/proc/sys") / name for name in SYSCTLS):
            undo.callback(path.write_text, path.read_text())
        kubelet = RealKubelet(program, node, folder)
        # A kubelet mounts its root directory on itself, so that what pods mount is shared.
        umount = ["umount", "--recursive", "--quiet", str(kubelet.folder)]
        undo.callback(subprocess.run, umount, check=False)
        undo.callback(remove_cgroups, node.top)
        undo.callback(node.remove_pods)
        undo.callback(kubelet.close)
        kubelet.configure(**settings)
        kubelet.start()
        yield kubelet


def _remove_new(top: Path, before: frozenset[Path]) -> None:
    """Remove what was not there before."""
    for path in set(top.iterdir()) - before:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
