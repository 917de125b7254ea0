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
from toolkit.model.cpu_units import linear_weight
from toolkit.model.cpuset import CpuSet

CONFIG = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
"""


CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")
"""In whose hierarchies a runtime makes a container's cgroup; where they are one it is one."""
SHARES, MEMORY_BYTES = 1024, 1 << 26
"""What every container has, and its runtime was asked for."""


def make_container(hierarchy: cgroupfs.Hierarchy, cgroup: str, cpus: CpuSet, quota_us: int) -> list[Path]:
    """Make a container's cgroup in each hierarchy, with these CPUs; returns its directories. Those above are made too.

    :param quota_us: of CPU time in 100 ms; -1: none.

    In all of them: a claim whose cgroup has no files of the CPU's bandwidth is not judged, and costs next to nothing.
    """
    found: list[Path] = []
    for controller in CONTROLLERS:
        mount = hierarchy.find_controller(controller)
        place = None if mount is None else _made(hierarchy, controller, mount, cgroup)
        if place is not None and place not in found:
            found.append(place)
    for place in found:
        _limit(place, cpus, quota_us)
    return found


def _made(hierarchy: cgroupfs.Hierarchy, controller: str, mount: Path, cgroup: str) -> Path:
    place, is_v2 = mount, hierarchy.is_v2(controller)
    for part in cgroup.strip("/").split("/"):
        if is_v2:
            with contextlib.suppress(OSError):  # of the root: what it has it keeps
                (place / "cgroup.subtree_control").write_text(f"+{controller}")
        place = place / part
        if not place.is_dir():
            place.mkdir()
        if controller == "cpuset" and not is_v2 and not (place / "cpuset.mems").read_text().strip():
            (place / "cpuset.mems").write_text((place.parent / "cpuset.mems").read_text())
            (place / "cpuset.cpus").write_text((place.parent / "cpuset.cpus").read_text())
    return place


def _limit(place: Path, cpus: CpuSet, quota_us: int) -> None:
    words = {
        "cpu.cfs_quota_us": str(quota_us),
        "cpu.max": f"{quota_us} 100000" if quota_us > 0 else "max 100000",
        "cpuset.cpus": str(cpus),
        "cpu.shares": str(SHARES),
        "cpu.weight": str(linear_weight(SHARES)),
        "memory.limit_in_bytes": str(MEMORY_BYTES),
        "memory.max": str(MEMORY_BYTES),
    }
    for name, word in words.items():
        if (place / name).exists():
            (place / name).write_text(word)


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
def kubelet_node(folder: Path, cgroups: Sequence[str], cpus: CpuSet, quota_us: int = -1) -> Iterator[list[str]]:
    """Say of these cgroups (``.../podUID/ID``) what a kubelet says of its shared pool; yields the options of ``watch``.

    :param folder: short enough for a socket's path. :param quota_us: that each was given, in 100 ms; -1: none.
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
        said[one] = status(one, cgroup, str(cpus), quota=quota_us, shares=SHARES, memory=MEMORY_BYTES)
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
