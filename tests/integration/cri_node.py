"""A private container runtime, and pods made through its CRI: a kubelet's node without the kubelet.

Own root, state, socket, runc directory and images; cgroups below ``/pinproof-...``; host network, so no CNI plugin.
What differs between runtimes is in ``containerd_node.py`` and ``crio_node.py``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.integration.cri_messages import MESSAGES
from tests.integration.probe_lab import stand_still, wait_for
from tests.pace import PACE
from toolkit.errors import InputError
from toolkit.model.runtimes import INIT_NAMES
from toolkit.sources.cri import ENUMS, SERVICE, Cri
from toolkit.sources.grpc_socket import Connection
from toolkit.sources.messages import build

IMAGE = "pinproof.local/sleeper:1"
SECRET = "hunter2-of-the-pod"
DEADLINE_S = 60.0 * PACE
HOST = {"network": 2, "pid": 1, "ipc": 2}
"""NODE, CONTAINER, NODE of NamespaceMode."""
ONE_PID_NAMESPACE = {**HOST, "pid": 0}
"""As in a pod whose containers share it (POD): a process holds it, where a runtime drops pause containers, too."""
GIVEN_OCI = "PINPROOF_OCI_RUNTIME"
OCI = os.environ.get(GIVEN_OCI, "runc")
"""The program that makes containers for them: runc, crun, or its path."""
SYSTEMD = os.environ.get("PINPROOF_TEST_CGROUP_DRIVER") == "systemd"
"""Whether cgroups are asked of systemd: guests of the lab say so where it is the first process."""


@dataclass(frozen=True)
class Runtime:
    """A runtime that a test can have. :param need: skips where a part of it is missing. :param start: runs it."""

    name: str
    need: Callable[[], None]
    start: Callable[[Path], AbstractContextManager[Node]]

    def __str__(self) -> str:
        return self.name


class Node(ABC):
    """The running runtime. :param folder: everything of it. :param top: the cgroup above ``kubepods``."""

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

    @abstractmethod
    def _command(self) -> tuple[list[str], dict[str, str]]:
        """Write the configuration; return the command, and what its environment has beside this one's."""

    @abstractmethod
    def cgroup_names(self, container: str) -> tuple[str, ...]:
        """Return how a container's cgroup may be named: by the cgroupfs driver, by systemd's."""

    @abstractmethod
    def load_image(self) -> None:
        """Give it the image that these tests make: one static program, for pods and their sandboxes."""

    def _start(self) -> subprocess.Popen[bytes]:
        command, more = self._command()
        server = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT, env={**os.environ, **more})
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
        """End it; its shims or monitors and its containers live on, as on a node."""
        if self._server.poll() is None:
            self._server.send_signal(signal.SIGTERM)
            self._server.wait(DEADLINE_S)

    def halt(self) -> None:
        """Let it hang: its socket takes connections, and no answer comes."""
        stand_still(self._server.pid)

    def restart(self) -> None:
        """Let it go on, or start it if it was stopped."""
        self._server.send_signal(signal.SIGCONT)
        if self._server.poll() is not None:
            self._server = self._start()

    def call(
        self, method: str, request: str, response: str = "Nothing", service: str = SERVICE, **fields: object
    ) -> dict[str, Any]:
        """Make one call that changes something."""
        with Connection(str(self.socket), service, self._classes, DEADLINE_S) as connection:
            return connection.call(method, request, response, **fields)

    def pod(
        self, uid: str, name: str, qos: str = "", namespaces: Mapping[str, int] = HOST
    ) -> tuple[str, dict[str, Any]]:
        """Make a pod's sandbox. :returns: its id and its configuration."""
        labels = _labels(uid, name)
        config = {
            "metadata": {"name": name, "uid": uid, "namespace": "default", "attempt": 0},
            "log_directory": str(self.folder / "logs"),
            "labels": {**labels, "password": SECRET},
            "annotations": {"password": SECRET},
            "linux": {
                "cgroup_parent": f"{self.top}/kubepods{qos}/pod{uid}",
                "security_context": {"namespace_options": dict(namespaces)},
            },
        }
        answer = self.call("RunPodSandbox", "RunPodSandboxRequest", "RunPodSandboxResponse", config=config)
        return answer["podSandboxId"], config

    def container(
        self,
        sandbox: tuple[str, dict[str, Any]],
        name: str,
        *,
        attempt: int = 0,
        told: Sequence[str] = (SECRET,),
        **resources: object,
    ) -> str:
        """Make and start a container in a sandbox; its own program runs then, and no more the runtime's.

        :param attempt: which life of it. :param told: the program's arguments. :returns: its id.
        """
        pod = sandbox[1]["metadata"]
        config = {
            "metadata": {"name": name, "attempt": attempt},
            "image": {"image": IMAGE, "user_specified_image": IMAGE},
            "command": ["/sleeper"],
            "args": list(told),
            "envs": [{"key": "PASSWORD", "value": SECRET}],
            "labels": {**_labels(pod["uid"], pod["name"]), "io.kubernetes.container.name": name, "own": SECRET},
            "annotations": {"password": SECRET},
            "log_path": f"{name}.log",
            "linux": {"resources": resources, "security_context": sandbox[1]["linux"]["security_context"]},
        }
        answer = self.call(
            "CreateContainer",
            "CreateContainerRequest",
            "CreateContainerResponse",
            pod_sandbox_id=sandbox[0],
            config=config,
            sandbox_config=sandbox[1],
        )
        container = str(answer["containerId"])
        self.call("StartContainer", "OfContainer", container_id=container)
        # The runtime's process goes on as the container's when it gets a CPU: on a busy machine that may take seconds.
        wait_for(lambda: self._runs(container), f"container {container} runs its own program", DEADLINE_S)
        return container

    def _runs(self, container: str) -> bool:
        own = frozenset(self.cgroup_names(container))
        found = set()
        for path in cgroups_of(self.top):
            if own & {*path.parts}:  # also below it: crun makes one more
                for pid in (path / "cgroup.procs").read_text().split():
                    with contextlib.suppress(OSError):  # ended since
                        found.add(Path(f"/proc/{pid}/comm").read_text().strip())
        return bool(found) and not found & INIT_NAMES

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

    def cpuset(self, container: str) -> Path:
        """Return the file with the CPUs of a container's cgroup."""
        return self.control(container, "cpuset.cpus")

    def control(self, container: str, *named: str) -> Path:
        """Return a control file of a container's cgroup: the one that there is of these."""
        names = self.cgroup_names(container)
        files = [path / name for path in cgroups_of(self.top) if path.name in names for name in named]
        (file,) = [path for path in files if path.exists()]
        return file

    def crash(self, container: str) -> None:
        """Kill the processes of a container, and wait until the runtime has taken its cgroup away."""
        names = self.cgroup_names(container)
        for path in cgroups_of(self.top):
            if path.name in names:
                for pid in (path / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
        gone = f"the cgroup of {container} is gone"
        wait_for(lambda: not any(path.name in names for path in cgroups_of(self.top)), gone, DEADLINE_S)

    def remove_pods(self) -> None:
        """Stop and remove all pods with their containers."""
        with Cri(str(self.socket), DEADLINE_S) as client:
            ids = [entry["id"] for entry in client.sandboxes().get("items", [])]
        for one in ids:
            self.remove_pod(one)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other process of these tests runs a runtime: the sockets of shims are in one place for all."""
    folder = os.open(Path(__file__).parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def removed_again(*paths: Path) -> Iterator[None]:
    """Remove at the end what of these paths does not exist now: programs make it wherever they run."""
    ways = [[*reversed(path.parents), path] for path in paths]
    missing = [one for way in ways if (one := next((part for part in way if not part.exists()), None)) is not None]
    try:
        yield
    finally:
        for path in missing:
            shutil.rmtree(path, ignore_errors=True)


def own_cgroup(name: str) -> str:
    """Return the cgroup above ``kubepods`` of a node of this process."""
    return "/kubepods.slice" if SYSTEMD else f"/pinproof-{name}-{os.getpid()}"


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
    """List command lines that name the folder: of runtimes, their shims and monitors."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if str(folder) in words and any(
                name in words.partition(" ")[0] for name in ("containerd", "crio", "conmon")
            ):
                found.append(words)
    return found


def _labels(uid: str, name: str) -> dict[str, str]:
    kind = "io.kubernetes.pod"
    return {f"{kind}.name": name, f"{kind}.namespace": "default", f"{kind}.uid": uid}
