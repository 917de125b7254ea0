"""Eight hours of ``watch`` as 5,000 short windows under churn: memory stays flat, no map fills, the disk stays bounded.

``make soak`` runs it; ``PINPROOF_WINDOWS`` makes it another length, ``PINPROOF_SEED`` repeats one. Six claimed cgroups
run shells that fork a hundred times a second; every few windows one of them is deleted and made again, or a shell goes
over to another claim and back.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.membership_lab import cpuset
from tests.integration.probe_lab import join, remove, wait_for
from tests.json_lines import result_in
from tests.seeds import SEED, SOAK
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(not SOAK, reason="half an hour: PINPROOF_SOAK=1 (make soak)"),
]
ONLINE = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text().strip())
WINDOWS = int(os.environ.get("PINPROOF_WINDOWS", "5000"))
WINDOW_S = 0.3
KEEP = 20
CLAIMS = 6
FORKS = "while :; do /bin/true; sleep 0.01; done"
KEPT_PER_WINDOW = 2_000
"""Bytes of a window that has ended: as in ``test_watch_windows``, whose count is exact; here what the kernel says."""
SLACK = 8 << 20
"""Bytes by which a resident set moves by itself: the allocator gives arenas of 1 MiB back when they are empty, and a
window of many tasks needs some at once."""
UNDECIDED_PART = 0.02


class Claimed:
    """One claimed cgroup with a shell that forks."""

    def __init__(self, name: str) -> None:
        self.path = f"/pinproof-long-{os.getpid()}-{name}"
        self.directory = cgroupfs.identity_dir(cgroupfs.detect(), self.path)
        self.shell: subprocess.Popen[bytes] | None = None
        self.cpuset: Path | None = None
        """On a hybrid host: ``cgroup.procs`` of its v1 cpuset, which stays."""

    def start(self) -> None:
        """Make it."""
        self.directory.mkdir()
        self.shell = subprocess.Popen(["nice", "-n", "19", "sh", "-c", FORKS], start_new_session=True)
        join(self.path, self.shell.pid)
        if self.cpuset is not None:
            self.cpuset.write_text(str(self.shell.pid))

    def end(self) -> None:
        """Delete it, as a service that stops."""
        if self.shell is not None:
            os.killpg(self.shell.pid, signal.SIGKILL)
            self.shell.wait()
            self.shell = None
        if self.directory.exists():
            wait_for(lambda: not (self.directory / "cgroup.procs").read_text(), f"{self.path} is empty")
            remove(self.directory)


@contextlib.contextmanager
def claimed() -> Iterator[list[Claimed]]:
    """Run the cgroups."""
    cgroups = [Claimed(str(number)) for number in range(CLAIMS)]
    with contextlib.ExitStack() as stack:
        for one in cgroups:
            if not cgroupfs.detect().is_v2("cpuset"):
                one.cpuset = stack.enter_context(cpuset(one.path, ONLINE))
            stack.callback(one.end)
            one.start()
        yield cgroups


def churn(dice: random.Random, cgroups: list[Claimed]) -> None:
    """Do one thing that changes which task is where."""
    one, other = dice.sample(cgroups, 2)
    if dice.random() < 0.5:
        one.end()
        one.start()
    elif one.shell is not None:
        join(other.path, one.shell.pid)
        join(one.path, one.shell.pid)


def resident(pid: int) -> int:
    """Return the resident bytes of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = 0
    for each in (str(pid), *children):
        with contextlib.suppress(OSError):
            found += int(Path(f"/proc/{each}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return found


class Watch:
    """A watch of them, and how many of its windows have ended."""

    def __init__(self, folder: Path, cgroups: list[Claimed]) -> None:
        rows = [f'- {{name: "c{n}", cgroup: "{one.path}", cpus: "{ONLINE}"}}\n' for n, one in enumerate(cgroups)]
        claims = folder / "claims.yaml"
        claims.write_text(f"apiVersion: pinproof/v1\nkind: Claims\nclaims:\n{''.join(rows)}")
        command = [sys.executable, "-m", "toolkit", "watch", "--claims", str(claims), "--json", "--keep", str(KEEP)]
        self.stdout, self.stderr = folder / "stdout", folder / "stderr"
        self.runs = folder / "runs"
        with self.stdout.open("w") as stdout, self.stderr.open("w") as stderr:
            self.process = subprocess.Popen(
                [*command, "--window", str(WINDOW_S), "--output", str(self.runs)], stdout=stdout, stderr=stderr
            )

    def ended(self) -> int:
        """Return the number of the last window that ended."""
        assert self.process.poll() is None, self.stderr.read_text()[-3000:]
        with self.stderr.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - 100_000))
            numbers = re.findall(r"^Window (\d+), ", stream.read().decode(), re.MULTILINE)
        return int(numbers[-1]) if numbers else 0

    def on_disk(self) -> list[Path]:
        """Return the windows that are saved."""
        return sorted(self.runs.glob("*/window-*"))


def until(watch: Watch, windows: int, act: Callable[[], None]) -> None:
    """Act each second until so many windows have ended; they must go on ending."""
    last, since = watch.ended(), time.monotonic()
    while last < windows:
        act()
        time.sleep(1.0)
        now = watch.ended()
        if now > last:
            last, since = now, time.monotonic()
        assert time.monotonic() - since < 60, "no window has ended for a minute"


def test_five_thousand_windows(tmp_path: Path) -> None:
    """Memory, disk and windows without a verdict, at a tenth of the way and at its end."""
    dice = random.Random(SEED)
    with claimed() as cgroups:
        watch = Watch(tmp_path, cgroups)
        try:
            until(watch, max(1, WINDOWS // 10), lambda: churn(dice, cgroups))
            early, before = watch.ended(), resident(watch.process.pid)
            until(watch, WINDOWS, lambda: churn(dice, cgroups))
            late, after = watch.ended(), resident(watch.process.pid)
            watch.process.send_signal(signal.SIGTERM)
            code = watch.process.wait(120)
        finally:
            if watch.process.poll() is None:
                watch.process.kill()
                watch.process.wait()
    result = result_in(watch.stdout.read_text())
    sums, coverage = result["windows"], result["coverage"]
    saved = [path for path in watch.on_disk() if (path / "result.json").exists()]
    largest = max(sum(file.stat().st_size for file in path.iterdir()) for path in saved)
    reasons = {reason for window in sums["worst"] for reason in window["reasons"]}
    said = (
        f"seed {SEED}: {sums['count']} windows, {sums['passed']} passed, {sums['undecided']} undecided, "
        f"{sums['failed']} failed; resident {before / 2**20:.1f} MiB at {early}, {after / 2**20:.1f} MiB at {late}; "
        f"{len(saved)} windows on disk, the largest {largest / 2**10:.0f} KiB"
    )
    print("\n".join([said, *sorted(reasons)]))
    assert after - before < KEPT_PER_WINDOW * (late - early) + SLACK, said
    assert len(saved) <= KEEP + 1, said
    assert (coverage["map_full"], coverage["lost_events"]) == (0, 0), said
    assert sums["failed"] == 0, "\n".join(sorted(reasons))
    assert sums["undecided"] <= UNDECIDED_PART * sums["count"] + 1, "\n".join(sorted(reasons))
    assert code in (0, 3), said
