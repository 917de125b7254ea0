"""A kubelet's node of many containers for benchmarks: state file, configuration, log links, and a runtime's socket.

The runtime's answers are made here, in the benchmark's own process: only reading them is in what is measured.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.unit.toolkit.sources.socket_server import CRI, container, field, labels, sandbox, served, status
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet

CONFIG = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
"""


def set_cpus(hierarchy: cgroupfs.Hierarchy, cgroup: str, cpus: CpuSet) -> Path:
    """Make a container's cgroup where cpusets are, with these CPUs; returns its directory. Those above are made too."""
    mount = hierarchy.find_controller("cpuset")
    assert mount is not None, "no cpuset controller"
    place = mount
    for part in cgroup.strip("/").split("/"):
        if hierarchy.is_v2("cpuset"):
            with contextlib.suppress(OSError):  # of the root: what it has it keeps
                (place / "cgroup.subtree_control").write_text("+cpuset")
        place = place / part
        if not place.is_dir():
            place.mkdir()
        if not hierarchy.is_v2("cpuset") and not (place / "cpuset.mems").read_text().strip():
            (place / "cpuset.mems").write_text((place.parent / "cpuset.mems").read_text())
            (place / "cpuset.cpus").write_text((place.parent / "cpuset.cpus").read_text())
    (place / "cpuset.cpus").write_text(str(cpus))
    return place


def shuffled(entries: Sequence[bytes]) -> bytes:
    """Join entries in an order that is another one each time: a runtime lists what it holds in a map of Go's."""
    return b"".join(random.sample(entries, len(entries)))


@contextlib.contextmanager
def kubelet_process(folder: Path) -> Iterator[None]:
    """Run a process that is called as a kubelet is, without arguments: where none runs all processes are looked at each
    time, which no node in service needs.
    """
    program = folder / "kubelet"
    program.symlink_to(shutil.which("cat") or "/bin/cat")
    with subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


@contextlib.contextmanager
def kubelet_node(folder: Path, cgroups: Sequence[str], cpus: CpuSet) -> Iterator[list[str]]:
    """Say of these cgroups (``.../podUID/ID``) what a kubelet says of its shared pool; yields the options of ``watch``.

    :param folder: short enough for a socket's path.
    """
    root, logs = folder / "kubelet", folder / "logs"
    root.mkdir()
    logs.mkdir()
    (root / "config.yaml").write_text(CONFIG)
    state = CpuState(policy_name="static", default=cpus, entries={})
    (root / "cpu_manager_state").write_text(write_cpu_checkpoint(state, pod_level=False))
    listed, boxes, said = list[bytes](), list[bytes](), {}
    for number, cgroup in enumerate(cgroups):
        pod, one = Path(cgroup).parent.name.removeprefix("pod"), Path(cgroup).name
        name, box = f"pod-{number}", f"{number:x}".rjust(64, "b")
        listed.append(field(1, container(one, box, "main", labels(pod, name, "main"))))
        boxes.append(field(1, sandbox(box, pod, name)))
        said[one] = status(one, cgroup, str(cpus))
        (logs / f"{name}_default_main-{one}.log").symlink_to("/dev/null")
    with served(
        folder / "c.sock",
        CRI,
        Version=field(2, "containerd") + field(3, "1.6.20"),
        ListContainers=lambda _: shuffled(listed),
        ListPodSandbox=lambda _: shuffled(boxes),
        ContainerStatus=lambda request: said[request[2:66].decode()],
    ) as endpoint:
        yield ["--kubelet", "--kubelet-root", str(root), "--logs", str(logs), "--cri", endpoint]
