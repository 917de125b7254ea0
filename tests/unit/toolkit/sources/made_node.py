"""A node made of files below one root and of two served sockets, with secrets everywhere where pods have them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.unit.toolkit.sources.socket_server import (
    CRI,
    POD_RESOURCES,
    container,
    field,
    labels,
    sandbox,
    served,
    status,
    varint,
)
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.checkpoint.format import text_checksum
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.cpuset import CpuSet

SECRET = "hunter2"
MAIN, BOX, WEB = "aa" * 32, "bb" * 32, "cc" * 32
HOSTILE = "pod\x1b[31m\u202e"
"""A pod's uid that would steer a terminal."""
KUBEPODS = "sys/fs/cgroup/kubepods"


def allocations_text(entries: Mapping[str, object]) -> str:
    """The text of a kubelet's file of allocations. :param entries: by UID of the pod."""
    data = json.dumps({"entries": entries})
    return json.dumps({"data": data, "checksum": text_checksum(data)})


def files_of(root: Path, endpoint: str) -> None:
    """Write what a node with one exclusive and one shared container has on its disk and in its kernel."""
    conf = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    state = CpuState(policy_name="static", default=CpuSet.parse("0-1"), entries={"u-1": {"main": CpuSet.parse("2-3")}})
    write(root, "var/lib/own/cpu_manager_state", write_cpu_checkpoint(state, pod_level=False))
    header = f"staticPodURLHeader: {{Authorization: [{SECRET}]}}\n"
    write(root, "etc/kubelet.yaml", f"{conf}{header}cpuManagerPolicy: static\ncontainerRuntimeEndpoint: {endpoint}\n")
    write(root, "etc/kubelet.d/10-x.conf", f"{conf}reservedSystemCPUs: '0'\nstaticPodPath: /etc/manifests\n")
    pod = f"""apiVersion: v1
kind: Pod
metadata: {{name: p, annotations: {{a: {SECRET}}}, labels: {{b: {SECRET}}}}}
spec:
  volumes: [{{name: v, hostPath: {{path: /{SECRET}}}}}]
  containers:
  - {{name: main, args: [{SECRET}], env: [{{name: P, value: {SECRET}}}], resources: {{limits: {{cpu: "2"}}}}}}
"""
    write(root, "etc/manifests/p.yaml", pod)
    write(root, "etc/manifests/broken.yaml", f"{SECRET}: [")
    arguments = ["--config=/etc/kubelet.yaml", "--config-dir", "/etc/kubelet.d", "--root-dir=/var/lib/own"]
    process(root, 42, "kubelet", "/kubelet.service", [*arguments, f"--manifest-url-header=Authorization:{SECRET}"])
    process(root, 7, "kubelet", f"/kubepods/podu-1/{MAIN}", ["--root-dir=/evil"])
    process(root, 77, "main", f"/kubepods/podu-1/{MAIN}", [SECRET], cpus="2-3")
    process(root, 78, "web\x1b[2J", f"/kubepods/{HOSTILE}/{WEB}", [], cpus="0-1")
    cgroup(root, f"podu-1/{MAIN}", "2-3", 77)
    cgroup(root, f"podu-1/{BOX}", "", 0)
    cgroup(root, f"{HOSTILE}/{WEB}", "0-1", 78)
    cgroup(root, "pod\udcff/x\udcfe", "0", 0)
    write(root, "sys/devices/system/cpu/online", "0-3\n")
    logs = root / "var/log/containers"
    logs.mkdir(parents=True)
    (logs / f"web_prod_srv-{WEB}.log").symlink_to("/nowhere")


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def process(root: Path, pid: int, comm: str, cgroup: str, arguments: list[str], cpus: str = "0-3") -> None:
    folder = f"proc/{pid}"
    write(root, f"{folder}/cmdline", "\0".join([f"/usr/bin/{comm}", *arguments]) + "\0")
    for place in (folder, f"{folder}/task/{pid}"):
        write(root, f"{place}/comm", f"{comm}\n")
        write(root, f"{place}/cgroup", f"0::{cgroup}\n")
    write(root, f"{folder}/task/{pid}/status", f"Name:\tx\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0\n")


def cgroup(root: Path, path: str, cpus: str, pid: int) -> None:
    for name, text in (("cpuset.cpus", cpus), ("cpu.max", "max 100000"), ("cgroup.procs", str(pid) if pid else "")):
        write(root, f"{KUBEPODS}/{path}/{name}", f"{text}\n")


@contextlib.contextmanager
def node(root: Path, folder: Path) -> Iterator[str]:
    """Make the node's files below ``root`` and serve its sockets. :param folder: short enough for a socket's path."""
    socket = folder / "c.sock"
    files_of(root, f"unix://{socket}")
    listed = field(1, container(MAIN, BOX, "main", labels("u-1", "p", "main", own=SECRET), SECRET)) + field(
        1, container(WEB, "gone", "srv", labels(HOSTILE[3:], "web\x1b[31m", "srv"))
    )
    said = {
        MAIN: status(MAIN, f"/kubepods/podu-1/{MAIN}", "2-3", secret=SECRET),
        WEB: status(WEB, f"/kubepods/{HOSTILE}/{WEB}", "0-1", quota=50000, secret=SECRET),
    }
    exclusive = field(1, "p") + field(2, "default") + field(3, field(1, "main") + field(3, varint(2) + varint(3)))
    with (
        served(
            socket,
            CRI,
            Version=field(2, "containerd") + field(3, "1.6.20"),
            ListContainers=listed,
            ListPodSandbox=field(1, sandbox(BOX, "u-1", "p")),
            ContainerStatus=lambda request: said[request[2:66].decode()],
        ) as endpoint,
        served(root / "var/lib/own/pod-resources/kubelet.sock", POD_RESOURCES, List=field(1, exclusive)),
    ):
        yield endpoint
