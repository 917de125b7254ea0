"""A kubelet-shaped node for ``watch --kubelet``: a real runtime, and state files as the kubelet writes them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.cri_node import Node
from tests.pace import PACE
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet

STARTED = "following"
PERIOD_S = 2
DEADLINE_S = 60.0 * PACE


@dataclass
class Kubelet:
    """What a kubelet does on a node: a state file first, then containers, then the pool at the next reconcile."""

    node: Node
    folder: Path
    online: CpuSet
    entries: dict[str, Mapping[str, CpuSet]] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    """Containers of the pool by pod uid."""
    asked: dict[str, CpuSet] = field(default_factory=dict)
    """By container: what was asked for last. A kubelet compares with it, never with a cgroup."""

    def start(self) -> None:
        """Write configuration and state."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "config.yaml").write_text(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
            f"cpuManagerReconcilePeriod: {PERIOD_S}s\nreservedSystemCPUs: '0'\n"
            f"containerRuntimeEndpoint: unix://{self.node.socket}\n"
        )
        self.save()

    @property
    def state(self) -> Path:
        """The CPU manager's state file."""
        return self.folder / "cpu_manager_state"

    @property
    def pool(self) -> CpuSet:
        """CPUs without an owner."""
        return self.online - CpuSet.union(cpus for own in self.entries.values() for cpus in own.values())

    def save(self) -> None:
        """Replace the state file, as the kubelet does."""
        state = CpuState(policy_name="static", default=self.pool, entries=self.entries)
        (self.folder / "new").write_text(write_cpu_checkpoint(state, pod_level=False))
        (self.folder / "new").replace(self.state)

    def reconcile(self) -> None:
        """Ask for the pool for every container that was not asked for it yet."""
        pool = self.pool
        for container in tuple(self.shared.values()):
            if self.asked.get(container) != pool:
                with contextlib.suppress(InputError):  # It has just ended.
                    self.node.update(container, cpuset_cpus=str(pool), cpu_shares=2, cpu_period=100000)
                    self.asked[container] = pool

    @contextlib.contextmanager
    def reconciling(self) -> Iterator[None]:
        """Reconcile every period, whatever happens meanwhile."""
        stop = threading.Event()

        def again() -> None:
            while not stop.wait(PERIOD_S):
                self.reconcile()

        thread = threading.Thread(target=again)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def run_shared(self, uid: str, name: str) -> None:
        """Run a pod of the pool."""
        pod = self.node.pod(uid, name, "/besteffort")
        self.shared[uid] = self.node.container(pod, "main", cpu_period=100000, cpu_shares=2, cpuset_cpus=str(self.pool))

    def run_limited(self, sandbox: tuple[str, dict[str, Any]], quota_us: int, attempt: int = 0) -> str:
        """Run a life of a container of the pool that wants a CPU and may have so much of each 100 ms."""
        container = self.node.container(
            sandbox,
            "main",
            attempt=attempt,
            told=("work", "0"),
            cpu_period=100000,
            cpu_quota=quota_us,
            cpu_shares=51,
            cpuset_cpus=str(self.pool),
        )
        self.shared[sandbox[1]["metadata"]["uid"]] = container
        return container

    def own(self, uid: str, cpus: CpuSet) -> None:
        """Assign CPUs: the state file comes before the container."""
        self.entries[uid] = {"main": cpus}
        self.save()

    def run_own(self, sandbox: tuple[str, dict[str, Any]], uid: str, attempt: int = 0) -> str:
        """Run a life of a container with CPUs of its own."""
        return self.node.container(
            sandbox,
            "main",
            attempt=attempt,
            cpu_period=100000,
            cpu_quota=-1,
            cpu_shares=1024,
            cpuset_cpus=str(self.entries[uid]["main"]),
        )


@dataclass
class Watch:
    """A watch that runs. :param errors: file with what it says while it runs."""

    process: subprocess.Popen[bytes]
    folder: Path

    def said(self) -> str:
        """Return its standard error so far."""
        return (self.folder / "err").read_text()

    def wait_for(self, text: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until it has said this."""
        self.wait_until(lambda: text in self.said(), text, deadline_s)

    def wait_until(self, condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait for a condition."""
        end = time.monotonic() + deadline_s
        while not condition():
            assert self.process.poll() is None, f"it ended before: {what}\n{self.said()[-3000:]}"
            assert time.monotonic() < end, f"not in time: {what}\n{self.said()[-3000:]}"
            time.sleep(0.05 * PACE)

    def windows(self) -> list[Path]:
        """Return the directories of windows that have ended."""
        return sorted(self.folder.glob("runs/*/window-*/result.json"))

    def pass_windows(self, count: int) -> None:
        """Wait until so many more windows have ended."""
        wanted = len(self.windows()) + count
        self.wait_until(lambda: len(self.windows()) >= wanted, f"{count} windows")

    def verdicts(self) -> list[dict[str, Any]]:
        """Return the verdicts of all windows, each with the number of its window."""
        return [
            {**verdict, "window": number}
            for number, path in enumerate(self.windows(), 1)
            for verdict in json.loads(path.read_text())["verdicts"]
        ]

    def failed(self, rule: str = "") -> list[tuple[int, str, str, str, str]]:
        """Return what failed: window, rule, subject, outcome, reason.

        Not what is undecided: on a machine whose CPUs are all busy the watch itself may wait too long.
        """
        return [
            (row["window"], row["rule"], row["subject"], row["outcome"], row["reason"])
            for row in self.verdicts()
            if row["outcome"] == "failed" and rule in ("", row["rule"])
        ]


@contextlib.contextmanager
def watching(kubelet: Kubelet, folder: Path, window_s: float, *options: str) -> Iterator[Watch]:
    """Run ``pinproof watch --kubelet`` until the block ends."""
    folder.mkdir(exist_ok=True)
    (folder / "names").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "toolkit", "watch", "--kubelet", f"--kubelet-root={kubelet.folder}"]
    command += [f"--logs={folder / 'names'}", f"--window={window_s}", f"--output={folder / 'runs'}", *options]
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        watch = Watch(process, folder)
        try:
            watch.wait_for(STARTED)
            yield watch
        finally:
            process.terminate()
            process.wait(DEADLINE_S)
