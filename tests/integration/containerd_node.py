"""A private containerd with its CRI plugin, and pods made through the CRI: a kubelet's node without the kubelet.

Own root, state, socket, runc directory and images; cgroups below ``/pinproof-...``; host network, so no CNI plugin.

Source: containerd docs/cri/config.md;
containerd 1.6 runtime/v2/shim/util_unix.go (``/run/containerd/s`` holds shims' sockets).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from tests import programs
from tests.integration.containerd_image import PREBUILT, archive
from tests.integration.containerd_messages import MESSAGES
from tests.pace import PACE
from toolkit.errors import InputError
from toolkit.sources.cri import ENUMS, SERVICE, Cri
from toolkit.sources.grpc_socket import Connection
from toolkit.sources.messages import build

SHIM_SOCKETS = Path("/run/containerd/s")
IMAGE = "pinproof.local/sleeper:1"
SECRET = "hunter2-of-the-pod"
DEADLINE_S = 60.0 * PACE
HOST = {"network": 2, "pid": 1, "ipc": 2}
"""NODE, CONTAINER, NODE of NamespaceMode."""
SYSTEMD = os.environ.get("PINPROOF_TEST_CGROUP_DRIVER") == "systemd"
"""Whether cgroups are asked of systemd: guests of the lab say so where it is the first process."""


def program(name: str) -> Path | None:
    """Return a program of the Debian package."""
    return programs.program(name, "containerd")


def need_containerd() -> None:
    """Skip where a part is missing."""
    compiler = () if PREBUILT.exists() else ("cc",)
    for name in ("containerd", "ctr", "containerd-shim-runc-v2", "runc", *compiler):
        if program(name) is None:
            pytest.skip(f"{name} is not installed")
    pytest.importorskip("grpc", reason="grpcio is not installed (pip install 'pinproof[kubelet]')")


class Node:
    """The running containerd. :param folder: everything of it. :param top: the cgroup above ``kubepods``."""

    def __init__(self, folder: Path, top: str) -> None:
        self.folder, self.top = folder, top
        self.socket = folder / "c.sock"
        self._log = (folder / "log").open("wb")
        self._server = self._start()
        self._classes = build("runtime.v1", MESSAGES, ENUMS)

    def __enter__(self) -> Node:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.restart()
            self.remove_pods()
        finally:
            self.stop()
            self._log.close()

    def _start(self) -> subprocess.Popen[bytes]:
        path = f"{programs.unpacked('containerd')}:{os.environ['PATH']}"
        config = self.folder / "config.toml"
        config.write_text(_config(self.folder))
        server = subprocess.Popen(
            [str(program("containerd")), "--config", str(config)],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": path},
        )
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                with Cri(str(self.socket)) as client:
                    client.version()
                    client.containers()
                return server
            except InputError as error:
                if time.monotonic() > end or server.poll() is not None:
                    server.kill()
                    raise AssertionError(f"{error}\n{(self.folder / 'log').read_text()[-2000:]}") from None
                time.sleep(0.05)

    def stop(self) -> None:
        """End containerd; its shims and containers live on, as on a node."""
        if self._server.poll() is None:
            self._server.send_signal(signal.SIGTERM)
            self._server.wait(DEADLINE_S)

    def halt(self) -> None:
        """Let it hang: its socket takes connections, nobody answers."""
        self._server.send_signal(signal.SIGSTOP)

    def restart(self) -> None:
        """Let it go on, or start it if it was stopped."""
        self._server.send_signal(signal.SIGCONT)
        if self._server.poll() is not None:
            self._server = self._start()

    def call(self, method: str, request: str, response: str = "Nothing", **fields: object) -> dict[str, Any]:
        """Make one call that changes something."""
        with Connection(str(self.socket), SERVICE, self._classes, DEADLINE_S) as connection:
            return connection.call(method, request, response, **fields)

    def load_image(self) -> None:
        """Import the image that this module makes: one static program, for pods and their sandboxes."""
        image = self.folder / "image.tar"
        image.write_bytes(archive(IMAGE, self.folder))
        ctr = [str(program("ctr")), "--address", str(self.socket), "--namespace", "k8s.io"]
        command = [*ctr, "images", "import", "--snapshotter", "native", str(image)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
        assert done.returncode == 0, done.stderr

    def pod(self, uid: str, name: str, qos: str = "") -> tuple[str, dict[str, Any]]:
        """Make a pod's sandbox. :returns: its id and its configuration."""
        labels = _labels(uid, name)
        config = {
            "metadata": {"name": name, "uid": uid, "namespace": "default", "attempt": 0},
            "log_directory": str(self.folder / "logs"),
            "labels": {**labels, "password": SECRET},
            "annotations": {"password": SECRET},
            "linux": {
                "cgroup_parent": f"{self.top}/kubepods{qos}/pod{uid}",
                "security_context": {"namespace_options": HOST},
            },
        }
        answer = self.call("RunPodSandbox", "RunPodSandboxRequest", "RunPodSandboxResponse", config=config)
        return answer["podSandboxId"], config

    def container(
        self, sandbox: tuple[str, dict[str, Any]], name: str, *, attempt: int = 0, **resources: object
    ) -> str:
        """Make and start a container in a sandbox. :param attempt: which life of it. :returns: its id."""
        pod = sandbox[1]["metadata"]
        config = {
            "metadata": {"name": name, "attempt": attempt},
            "image": {"image": IMAGE},
            "command": ["/sleeper"],
            "args": [SECRET],
            "envs": [{"key": "PASSWORD", "value": SECRET}],
            "labels": {**_labels(pod["uid"], pod["name"]), "io.kubernetes.container.name": name, "own": SECRET},
            "annotations": {"password": SECRET},
            "log_path": f"{name}.log",
            "linux": {"resources": resources, "security_context": {"namespace_options": HOST}},
        }
        answer = self.call(
            "CreateContainer",
            "CreateContainerRequest",
            "CreateContainerResponse",
            pod_sandbox_id=sandbox[0],
            config=config,
            sandbox_config=sandbox[1],
        )
        self.call("StartContainer", "OfContainer", container_id=answer["containerId"])
        return str(answer["containerId"])

    def stop_container(self, container: str) -> None:
        """Kill a container; the runtime goes on listing it, as ended."""
        self.call("StopContainer", "OfContainer", container_id=container)

    def execute(self, container: str, timeout_s: int = 1) -> None:
        """Run one more process in a container, as a probe does; it is ended after its time."""
        # The program never ends by itself: that it took too long is what the runtime says.
        with contextlib.suppress(InputError):
            self.call("ExecSync", "ExecSyncRequest", container_id=container, cmd=["/sleeper"], timeout=timeout_s)

    def remove_pod(self, sandbox: str) -> None:
        """Stop and remove a pod with its containers."""
        self.call("StopPodSandbox", "OfSandbox", pod_sandbox_id=sandbox)
        self.call("RemovePodSandbox", "OfSandbox", pod_sandbox_id=sandbox)

    def update(self, container: str, **resources: object) -> None:
        """Ask for other resources, as the kubelet's reconcile does."""
        request = "UpdateContainerResourcesRequest"
        self.call("UpdateContainerResources", request, container_id=container, linux=resources)

    def containers(self) -> list[dict[str, Any]]:
        """List the containers, those that ended too."""
        with Cri(str(self.socket), DEADLINE_S) as client:
            return list(client.containers().get("containers", []))

    def remove_pods(self) -> None:
        """Stop and remove all pods with their containers."""
        with Cri(str(self.socket), DEADLINE_S) as client:
            ids = [entry["id"] for entry in client.sandboxes().get("items", [])]
        for one in ids:
            self.remove_pod(one)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other process of these tests runs a containerd: the sockets of shims are in one place for all."""
    folder = os.open(Path(__file__).parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def containerd(folder: Path) -> Iterator[Node]:
    """Run a private containerd; at the end no process, mount, cgroup or socket of it is left."""
    top = "/kubepods.slice" if SYSTEMD else f"/pinproof-containerd-{os.getpid()}"
    made = [path for path in (SHIM_SOCKETS, SHIM_SOCKETS.parent) if not path.exists()]
    (folder / "logs").mkdir(parents=True)
    try:
        with Node(folder, top) as node:
            node.load_image()
            yield node
    finally:
        remove_cgroups(top)
        for path in made:
            with contextlib.suppress(OSError):  # Somebody else uses it by now.
                path.rmdir()


def remove_cgroups(top: str) -> None:
    """Remove a cgroup with its children in every hierarchy; waits for the last processes to be gone."""
    end = time.monotonic() + 10
    while left := cgroups_of(top):
        for path in left:
            with contextlib.suppress(OSError):
                path.rmdir()
        if time.monotonic() > end:
            return
        time.sleep(0.05)


def cgroups_of(top: str) -> list[Path]:
    """List what there is of a cgroup in every hierarchy, children first."""
    root = Path("/sys/fs/cgroup")
    tops = [path for path in (root / top.strip("/"), *root.glob(f"*/{top.strip('/')}")) if path.is_dir()]
    return [Path(folder) for one in tops for folder, _, _ in os.walk(one, topdown=False)]


def processes_of(folder: Path) -> list[str]:
    """List command lines that name the folder: containerd and its shims."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if str(folder) in words and "containerd" in words.partition(" ")[0]:
                found.append(words)
    return found


def _labels(uid: str, name: str) -> dict[str, str]:
    kind = "io.kubernetes.pod"
    return {f"{kind}.name": name, f"{kind}.namespace": "default", f"{kind}.uid": uid}


def _config(folder: Path) -> str:
    runc = program("runc")
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    off = ", ".join(f'"io.containerd.{name}"' for name in ("internal.v1.opt", "snapshotter.v1.btrfs"))
    return f"""version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = [{off}]
[grpc]
address = "{folder}/c.sock"
[{cri}]
sandbox_image = "{IMAGE}"
disable_apparmor = true
restrict_oom_score_adj = true
[{cri}.cni]
bin_dir = "{folder}/cni"
conf_dir = "{folder}/cni"
[{cri}.containerd]
snapshotter = "native"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = {str(SYSTEMD).lower()}
Root = "{folder}/runc"
"""
