"""What a reading of a followed node costs: CPU seconds of the first, of one that says the same, of one that does not.

``python tests/benchmarks/bench_follow.py [--containers 500] [--processes 1500]``. No root, no eBPF: cgroups and
processes are files below a temporary directory, the runtime's socket is served by another process, whose time does not
count, and which lists in another order each time, as Go's servers do. Prints one JSON document; asserts nothing.
What is not in it: the kernel's part of reading control files is larger for real ones (some 4 microseconds each).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.kubelet_tree import kubelet_node
from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.follow import EVERY_MAX_S, SHARE, KubeletSource
from toolkit.sources.live_source import EVERY_S
from toolkit.sources.places import Places

READINGS = 20
ONLINE = CpuSet.parse("0-63")


def write(file: Path, text: str) -> Path:
    """Write a file, with the directories above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def node_files(folder: Path, containers: int, processes: int) -> list[str]:
    """Make the cgroups, the processes and the list of CPUs; return the containers' cgroups."""
    for pid in range(1, processes):
        write(folder / f"proc/{pid}/comm", "worker\n")
    kubelet = folder / f"proc/{processes}"
    write(kubelet / "comm", "kubelet\n")
    write(kubelet / "cgroup", "0::/system.slice/kubelet.service\n")
    write(kubelet / "cmdline", f"/usr/bin/kubelet\0--config={folder}/kubelet/config.yaml\0")
    write(folder / "sys/devices/system/cpu/online", f"{ONLINE}\n")
    cgroups = []
    for number in range(containers):
        pod = f"/kubepods/burstable/pod{number:08x}-0000-4000-8000-{number:012x}"
        cgroups.append(f"{pod}/{number:064x}")
        for one in (pod, cgroups[-1], f"{pod}/{number:x}".ljust(len(cgroups[-1]), "b")):
            for name in ("cpuset.cpus", "cpuset.mems", "cgroup.procs", "tasks"):
                write(folder / f"cgroup/cpuset{one}/{name}", f"{ONLINE}\n")
    return cgroups


@contextlib.contextmanager
def served(folder: Path, cgroups: list[str]) -> Iterator[Places]:
    """Serve the node's socket from a child process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with kubelet_node(folder, cgroups, ONLINE) as words:
            os.write(writer, json.dumps(words).encode())
            signal.pause()
        os._exit(0)
    try:
        words = json.loads(os.read(reader, 1 << 16))
        given = dict(zip(words[1::2], words[2::2], strict=True))
        yield Places(
            kubelet_root=Path(given["--kubelet-root"]),
            cgroup_root=folder / "cgroup",
            proc=folder / "proc",
            sys=folder / "sys",
            logs=Path(given["--logs"]),
            cri=given["--cri"],
        )
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def cost(source: KubeletSource, before: Callable[[int], object] = lambda _number: None) -> dict[str, float]:
    """Read it so many times; return the least and the middle of the CPU seconds of a reading, all threads' together.

    :param before: called before each, not measured.
    """
    found = []
    for number in range(READINGS):
        before(number)
        began = time.process_time()
        reading = source.read()
        found.append(time.process_time() - began)
        assert reading.complete
    found.sort()
    return {"least_s": round(found[0], 4), "median_s": round(found[len(found) // 2], 4)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--containers", type=int, default=500)
    parser.add_argument("--processes", type=int, default=1500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cgroups = node_files(folder, options.containers, options.processes)
        own = folder / f"cgroup/cpuset{cgroups[0]}/cpuset.cpus"
        with served(folder, cgroups) as places:
            source = KubeletSource(places)
            began = time.process_time()
            claims = len(source.read().claims.claims)
            first_s = time.process_time() - began
            same = cost(source)
            every_s = min(max(EVERY_S, same["median_s"] / SHARE), EVERY_MAX_S)
            result = {
                "claims": claims,
                "first_reading_s": round(first_s, 4),
                "says_the_same": same,
                "one_file_differs": cost(source, lambda number: own.write_text(f"{number}\n")),
                "read_every_s": round(every_s, 2),
                "share_of_a_cpu": round(same["median_s"] / every_s, 4),
            }
    print(json.dumps({**vars(options), **result}, indent=2))


if __name__ == "__main__":
    main()
