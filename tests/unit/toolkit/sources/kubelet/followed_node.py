"""A kubelet's node whose files and served runtime say what a test lets them say."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.unit.toolkit.sources.made_node import KUBEPODS, allocations_text, process, write
from tests.unit.toolkit.sources.socket_server import CRI, container, field, labels, sandbox, served, status
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import OWING, Why
from toolkit.sources.kubelet.follow import KubeletSource
from toolkit.sources.live_source import SourceReading
from toolkit.sources.places import Places

CREATED, EXITED = 0, 2
DB, WEB, BOX = "aa" * 32, "bb" * 32, "cc" * 32
CONFIG = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
"""


class Node:
    """A node of four CPUs whose files and runtime say what a test lets them say.

    At first ``db/main`` owns CPUs 2-3, and ``web/app`` shares 0-1; all layers agree.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        """Ids whose status was asked for, in order."""
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens while the runtime is asked for its containers."""
        self._listed: dict[str, bytes] = {}
        self._said: dict[str, bytes] = {}
        self.boxes = field(1, sandbox(BOX, "u-db", "db"))
        """What ListPodSandbox answers."""
        process(root, 42, "kubelet", "/kubelet.service", [])
        write(root, "sys/devices/system/cpu/online", "0-3\n")
        self.configure("")
        self.state("0-1", db="2-3")
        self.runs(DB, "db", "main", "2-3")
        self.runs(WEB, "web", "app", "0-1")
        self.source = KubeletSource(Places(root=root, cri=f"unix://{root}/c.sock"))

    def configure(self, more: str) -> None:
        """Write the kubelet's configuration with more lines."""
        write(self.root, "var/lib/kubelet/config.yaml", CONFIG + more)

    def started(self, boot_s: float) -> None:
        """Let the kubelet have started so many seconds after the machine."""
        ticks = int(boot_s * os.sysconf("SC_CLK_TCK"))
        write(self.root, "proc/42/stat", f"42 (kubelet) S {'0 ' * 18}{ticks} 0\n")

    def state(self, default: str, **entries: str) -> None:
        """Write the state file: the shared pool, and the CPUs of ``main`` of each pod."""
        owners = {f"u-{pod}": {"main": CpuSet.parse(cpus)} for pod, cpus in entries.items()}
        state = CpuState(policy_name="static", default=CpuSet.parse(default), entries=owners)
        write(self.root, "var/lib/kubelet/cpu_manager_state", write_cpu_checkpoint(state, pod_level=False))

    def runs(self, one: str, pod: str, name: str, cpus: str, *, cgroup: str | None = None, state: int = 1) -> None:
        """Let a container exist, asked for these CPUs. :param cgroup: what its cgroup has, if it is something else."""
        self._listed[one] = container(one, BOX, name, labels(f"u-{pod}", pod, name), state=state)
        self._said[one] = status(one, f"/kubepods/podu-{pod}/{one}", cpus)
        write(self.root, f"{KUBEPODS}/podu-{pod}/{one}/cpuset.cpus", f"{cpus if cgroup is None else cgroup}\n")
        write(self.root, f"{KUBEPODS}/podu-{pod}/{one}/cgroup.procs", "77\n")

    def asks(self, one: str, pod: str, cpus: str = "2-3", *, quota_us: int, **more: Any) -> None:
        """Let the runtime say that the kubelet asked for this quota, and more of :func:`status`."""
        self._said[one] = status(one, f"/kubepods/podu-{pod}/{one}", cpus, quota=quota_us, **more)

    def ends(self, one: str) -> None:
        """Let a container be gone for the runtime."""
        del self._listed[one], self._said[one]

    def pod_ends(self) -> None:
        """Let the sandbox of ``db`` have ended; it stays listed until the pod is deleted."""
        self.boxes = field(1, sandbox(BOX, "u-db", "db") + field(3, 1))

    def listing(self, _: bytes) -> bytes:
        """Answer ListContainers."""
        self.meanwhile()
        return b"".join(field(1, entry) for entry in self._listed.values())

    def status_of(self, request: bytes) -> bytes:
        """Answer ContainerStatus."""
        self.asked.append(request[2:66].decode())
        return self._said[self.asked[-1]]

    def read(self) -> SourceReading:
        """Read it once."""
        self.asked.clear()
        return self.source.read()


@contextmanager
def made_node() -> Iterator[Node]:
    """The node, served; its root is short enough for a socket's path."""
    with tempfile.TemporaryDirectory() as folder:
        made = Node(Path(folder))
        answers = {"ListContainers": made.listing, "ContainerStatus": made.status_of}
        answers["ListPodSandbox"] = lambda _: made.boxes
        with served(made.root / "c.sock", CRI, Version=field(2, "containerd"), **answers):
            yield made


def claim(reading: SourceReading, name: str) -> Claim:
    """Return the one claim of this name."""
    (found,) = (one for one in reading.claims.claims if one.name == name)
    return found


def cpus(reading: SourceReading) -> dict[str, str]:
    """What containers hold."""
    return {one.name: str(one.cpus) for one in reading.claims.claims if one.kind.carries_tasks}


def back(reading: SourceReading) -> dict[str, str]:
    """What they must give back."""
    return {row.claim: str(row.cpus) for row in reading.held if row.why in OWING}


def doubly(reading: SourceReading) -> set[str]:
    """What runs on CPUs that another owns by now."""
    return {row.claim for row in reading.held if row.why is Why.TAKEN}


STATES = "var/lib/kubelet"
API, HELPER = "dd" * 32, "ee" * 32
MANIFEST = """apiVersion: v1
kind: Pod
metadata: {name: api, uid: u-api-node1}
spec:
  containers:
  - {name: app, resources: {limits: {cpu: 250m, memory: 64Mi}, requests: {cpu: 100m, memory: 64Mi}}}
"""
OWNER = {"limits": {"cpu": "2", "memory": "64Mi"}, "requests": {"cpu": "2", "memory": "64Mi"}}
SHARER = {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "200m", "memory": "32Mi"}}


def allocates(node: Node, pods: Mapping[str, Mapping[str, object]], **budgets: object) -> None:
    """Write what the kubelet has allocated to the containers of each pod, and to pods (UID with _ for -)."""
    entries = {
        uid: {"ContainerResources": own, "PodLevelResources": budgets.get(uid.replace("-", "_"))}
        for uid, own in pods.items()
    }
    write(node.root, f"{STATES}/allocated_pods_state", allocations_text(entries))


def resizes(node: Node, now: Mapping[str, object], then: Mapping[str, object]) -> None:
    """Let ``web/app`` have these resources in force, and be allocated those: the same when no resize is under way."""
    allocates(node, {"u-web": {"app": now}})
    (node.root / STATES / "allocated_pods_state").rename(node.root / STATES / "actuated_pods_state")
    allocates(node, {"u-web": {"app": then}})
