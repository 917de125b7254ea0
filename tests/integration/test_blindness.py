"""A blind observer, for real: stopped, starved, overrun, without /proc. What it did not see cannot pass.

Through the doors: ``pinproof watch`` as a child for what is done to its process, the observer for what is done to it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from probes.loaded import loaded, observing
from probes.masks.witness import MaskWatch
from probes.node.cpus import Cpus
from probes.observer import Observer
from tests.integration.probe_lab import cgroup, join, wait_for
from tests.json_lines import result_in
from toolkit.model.blind_spots import EVERY_WITNESS, Witness
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet

pytestmark = pytest.mark.integration

CPU_UEVENT = Path("/sys/devices/system/cpu/cpu0/uevent")
STOPPED_S = 2.0
DEADLINE_S = 180
"""For a watch to begin or to end, on a machine however loaded."""
FLOOD = 30_000
"""Messages of about 1 KiB in the socket's account, many times what the monitor's buffer holds (1 MiB, doubled)."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class Watch:
    """``pinproof watch`` in a child, its window open."""

    process: subprocess.Popen[str]

    def stop(self) -> None:
        """Stop it; returns when the kernel has."""
        self.process.send_signal(signal.SIGSTOP)
        state = Path(f"/proc/{self.process.pid}/stat")
        wait_for(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "stopped")

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def waits_ns(self) -> dict[str, int]:
        """Return how long each of its threads has waited for a CPU so far (``schedstat``)."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return {thread.name: int((thread / "schedstat").read_text().split()[1]) for thread in threads}

    def result(self) -> tuple[int, dict[str, Any]]:
        """End the window by SIGINT; returns the exit code and what ``--json`` printed."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=DEADLINE_S)
        assert out, err
        return self.process.returncode, result_in(out)


@contextlib.contextmanager
def watch(folder: Path, cgroup_path: str, *more: str) -> Iterator[Watch]:
    """Watch one claim to CPU 0 until told to end."""
    claims = folder / "claims.yaml"
    rows = f"claims:\n  - {{name: sleeper, cgroup: {cgroup_path}, cpus: '0'}}\n"
    claims.write_text(f"apiVersion: pinproof/v1\nkind: Claims\n{rows}")
    port = free_port()
    command = [sys.executable, "-m", "toolkit", "watch", "--claims", str(claims), "--json", "--duration", "60"]
    options = ["--output", str(folder / "runs"), "--metrics-detail", "claim", "--metrics-port", str(port)]
    process = subprocess.Popen(
        [*command, *options, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )

    def opened() -> bool:
        assert process.poll() is None, process.communicate()
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read()
            return True
        return False

    try:
        wait_for(opened, "the window is open", DEADLINE_S)
        yield Watch(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def sleeper() -> Iterator[tuple[str, int]]:
    """A process in a cgroup of its own that never runs, with CPU 0 in its mask; its cgroup and its id."""
    with cgroup(f"pinproof-test-blind-{os.getpid()}") as path:
        process = subprocess.Popen(["sleep", "600"])
        os.sched_setaffinity(process.pid, {0})
        join(path, process.pid)
        try:
            yield path, process.pid
        finally:
            process.kill()
            process.wait()


def outcome(result: dict[str, Any], rule: str) -> dict[str, Any]:
    return next(row for row in result["verdicts"] if row["rule"] == rule)


def blind(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [spot for spot in result["coverage"]["blindness"] if spot["weakens"]]


def test_an_observer_that_keeps_up_passes(tmp_path: Path, sleeper: tuple[str, int]) -> None:
    """The same watch without a fault: nothing is blind, and how closely it looked is told.

    Where others let it wait for a CPU for longer than it allows for, the gap is as much longer at most, and it says so.
    """
    with watch(tmp_path, sleeper[0]) as one:
        before = one.waits_ns()
        time.sleep(STOPPED_S)  # as long as the faults below
        waited_ns = max(ns - before.get(tid, 0) for tid, ns in one.waits_ns().items())
        _, result = one.result()

    found = outcome(result, "affinity-mask")
    (gap,) = result["coverage"]["scan_gaps"]
    late_ns = gap["longest_ns"] - gap["allowed_ns"]
    assert 0 < gap["longest_ns"] == pytest.approx(found["measures"]["longest_gap_ms"] * 1e6)
    assert late_ns <= waited_ns, (gap, waited_ns)
    if late_ns <= 0:
        assert (found["outcome"], blind(result)) == ("passed", []), found
    else:
        assert found["outcome"] == "undecided", found


@pytest.mark.beside
@pytest.mark.usefixtures("two_cpus")
def test_what_happens_while_the_observer_is_stopped_cannot_pass(tmp_path: Path, sleeper: tuple[str, int]) -> None:
    """Every mask is wide while no scan reads it: undecided, with the gap, and the blind spot names the rule."""
    path, pid = sleeper
    with watch(tmp_path, path) as one:
        one.stop()
        os.sched_setaffinity(pid, {0, 1})
        time.sleep(STOPPED_S)  # how long it is stopped is what is tested
        os.sched_setaffinity(pid, {0})
        one.go_on()
        code, result = one.result()

    found = outcome(result, "affinity-mask")
    assert (found["outcome"], code) == ("undecided", 3)
    assert found["measures"]["longest_gap_ms"] >= STOPPED_S * 1000
    assert "were not read for" in found["reason"]
    weakened = {rule for spot in blind(result) for rule in spot["weakens"]}
    assert {"affinity-mask", "evidence-health"} <= weakened
    assert any("affinity-mask" in text for text in result["coverage"]["blind_spots"])
    assert outcome(result, "cpuset-containment")["outcome"] != "failed"


@pytest.mark.beside
def test_an_observer_that_is_starved_says_so(tmp_path: Path, sleeper: tuple[str, int]) -> None:
    """It runs for a tenth of a second in every one and a half: each gap is long, and the longest is told."""
    with watch(tmp_path, sleeper[0]) as one:
        for _ in range(2):
            one.stop()
            time.sleep(1.4)
            one.go_on()
            time.sleep(0.1)
        _, result = one.result()

    assert outcome(result, "affinity-mask")["outcome"] == "undecided"
    assert outcome(result, "affinity-mask")["measures"]["longest_gap_ms"] >= 1400
    assert outcome(result, "evidence-health")["outcome"] == "undecided"


def busy(cpu: int, seconds: float) -> subprocess.Popen[bytes]:
    """Take a CPU from every task that is not real-time, for 95 % of the time that others are let in by the kernel."""
    script = (
        f"import os, time; os.sched_setaffinity(0, {{{cpu}}}); "
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)); "
        f"end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
    )
    return subprocess.Popen([sys.executable, "-c", script])


def test_an_observer_that_waits_for_a_cpu_says_which(tmp_path: Path, sleeper: tuple[str, int]) -> None:
    """Its threads may run on CPU 0 alone, and a real-time task has that; with a higher priority they need not wait."""
    for options in ((), ("--rt", "60")):
        with watch(tmp_path, sleeper[0], *options) as one:
            for thread in Path(f"/proc/{one.process.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {0})
            hog = busy(0, 1.5)
            hog.wait()
            _, result = one.result()
        said = [text for text in result["coverage"]["blind_spots"] if "s for CPU 0, where other tasks ran" in text]
        assert bool(said) is not bool(options), result["coverage"]["blind_spots"]


def test_hotplug_events_that_were_lost_leave_nothing_passed(tmp_path: Path, sleeper: tuple[str, int]) -> None:
    """The monitor's buffer overruns (nothing changes by these events): a CPU may have gone and come unseen."""
    with watch(tmp_path, sleeper[0]) as one:
        one.stop()
        with CPU_UEVENT.open("w") as file:
            for _ in range(FLOOD):
                file.write("change")
                file.flush()
        one.go_on()
        _, result = one.result()

    if any("cannot be received" in text for text in result["coverage"]["blind_spots"]):
        pytest.skip("this host has no monitor to overrun")
    assert any("buffer full" in text for text in result["coverage"]["blind_spots"])
    assert [row for row in result["verdicts"] if row["outcome"] == "passed"] == []
    (lost,) = [spot for spot in blind(result) if "buffer full" in spot["text"]]
    assert set(lost["witnesses"]) == set(EVERY_WITNESS)


def test_an_overrun_taints_its_window_only(tmp_path: Path) -> None:
    """The online list goes on telling, and so does the monitor: the next window passes again."""
    with observing(ClaimSet(claims=())) as observer:
        if observer.witness(Cpus).hotplug.blind:
            pytest.skip(observer.witness(Cpus).hotplug.blind)
        observer.open_window()
        now = time.monotonic_ns()
        observer.witness(Cpus).hotplug._go_blind("CPU hotplug events were lost (buffer full)", now - 1000, now)
        first = observer.close_window()
        observer.open_window()
        second = observer.close_window()

    assert any("buffer full" in spot.text for spot in first.coverage.blindness)
    assert not any("buffer full" in spot.text for spot in second.coverage.blindness)


@pytest.fixture
def half_root(tmp_path: Path) -> Path:
    """Return a root whose /proc and /sys can be taken away."""
    root = tmp_path / "root"
    root.mkdir()
    for name in ("proc", "sys"):
        (root / name).symlink_to(f"/{name}")
    return root


def spots_after(root: Path, path: str, fault: Callable[[Observer], None]) -> dict[str, set[Witness]]:
    """Return what a window did not see, by text, with a fault in its middle."""
    claim = Claim(name="sleeper", cgroup=path, cpus=CpuSet.parse("0"))
    with loaded() as ledger, observing(ClaimSet(claims=(claim,)), root=root, ledger=ledger) as observer:
        ledger._root = root  # BTF is not read through links that lead out of a root: loaded from the real one
        observer.open_window()
        window = observer.window
        assert window is not None
        wait_for(lambda: window.watch(MaskWatch).masks.scans > 0, "a scan of the masks")
        fault(observer)
        evidence = observer.close_window()
    return {spot.text: set(spot.witnesses) for spot in evidence.coverage.blindness}


@pytest.mark.beside
def test_a_proc_that_vanishes_is_a_gap_and_an_error(half_root: Path, sleeper: tuple[str, int]) -> None:
    """The threads did not die, they cannot be read; the run goes on and comes to its end."""

    def take_proc(_observer: Observer) -> None:
        (half_root / "proc").unlink()
        time.sleep(1.5)  # longer than the stated resolution
        (half_root / "proc").symlink_to("/proc")

    spots = spots_after(half_root, sleeper[0], take_proc)

    assert any("cannot be read" in text and Witness.MASKS in kinds for text, kinds in spots.items()), spots
    assert any("were not read for" in text and Witness.MASKS in kinds for text, kinds in spots.items()), spots


@pytest.mark.beside
def test_an_error_of_the_listening_thread_is_evidence(half_root: Path, sleeper: tuple[str, int]) -> None:
    """It cannot read which CPUs are online: everything is in doubt, nothing ends."""

    def take_list(observer: Observer) -> None:
        opened = [one.fd for one in psutil.Process().open_files() if one.path.endswith("/system/cpu/online")]
        kept = [os.dup(one) for one in opened]
        folder = os.open("/", os.O_RDONLY)  # which cannot be read like a file
        for one in opened:
            os.dup2(folder, one, inheritable=False)
        wait_for(lambda: bool(observer.blindness.within(0, time.monotonic_ns())), "an error")
        for one, old in zip(opened, kept, strict=True):
            os.dup2(old, one, inheritable=False)
        for one in (folder, *kept):
            os.close(one)

    spots = spots_after(half_root, sleeper[0], take_list)

    assert any("met an error" in text and kinds == set(EVERY_WITNESS) for text, kinds in spots.items()), spots
