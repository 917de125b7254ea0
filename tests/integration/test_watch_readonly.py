"""``watch`` is called read-only: it changes nothing on the host that is not its own. Looked at before, during, after.

What is compared: every cgroup and every control file that can be written, the cgroups, affinity and scheduling of every
foreign thread, and every sysctl. Values that change by themselves on this machine are found by looking twice before.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.probe_lab import cgroup, join, wait_for
from toolkit.host import cgroupfs, procfs
from toolkit.host.cgroup_mounts import read_control

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="watching needs root")
OWN = "pinproof-"
COUNTERS = re.compile(r"usage|events|failcnt|pressure|stat|procs$|tasks$|threads$|peak|max_usage|current")
"""Counters, of which some can be reset by a write, and members, which are compared task by task."""
MOVING = re.compile(
    r"random/|[-/]nr$|-state$|ns_last_pid|perf_event_max_sample_rate|perf_cpu_time_max|nf_conntrack_count"
)
"""sysctls that the kernel itself counts in (terminals, whatever opens one, too), or lowers when it is slow."""
PF_EXITING = 0x4
"""Flag of a task's ``stat``: it exits (include/linux/sched.h)."""
LOOKED_S, LOOKS = 1.5, 3
"""For so long, and so often at least, while it watches."""
Facts = dict[str, str]


def mounts() -> list[Path]:
    hierarchy = cgroupfs.detect()
    found = [path for _, path in hierarchy.legacy] + ([hierarchy.unified] if hierarchy.unified else [])
    return list(dict.fromkeys(found))


def own_part(path: Path, mount: Path) -> bool:
    return path.relative_to(mount).parts[:1] != () and path.relative_to(mount).parts[0].startswith(OWN)


def control_files() -> Iterator[tuple[str, str]]:
    """Every cgroup, and every file of it that sets something."""
    for mount in mounts():
        for folder, below, files in os.walk(mount):
            here = Path(folder)
            if own_part(here, mount):
                below.clear()
                continue
            yield f"cgroup {here}", "exists"
            for name in files:
                path = here / name
                if COUNTERS.search(name) or name in ("cgroup.kill", "memory.reclaim", "cgroup.event_control"):
                    continue
                try:
                    if path.stat().st_mode & stat.S_IWUSR:
                        yield str(path), read_control(path) or ""
                except OSError:
                    continue


def exits(tid: int) -> bool:
    """Whether a task has ended or is about to. Asked after its cgroups: until it is collected the kernel shows it at
    the root of every v1 hierarchy, whatever it was in (kernel/cgroup/cgroup.c, ``proc_cgroup_show``).
    """
    flags = procfs.flags(tid)
    return flags is None or bool(flags & PF_EXITING)


def threads(own: frozenset[int]) -> Iterator[tuple[str, str]]:
    """Where each foreign thread is and may run: not those in cgroups of ours."""
    for pid in procfs.pids():
        if pid in own:
            continue
        for tid in procfs.tids(pid):
            try:
                name = f"thread {tid} {procfs.start_time(tid)}"
                mask, policy = sorted(os.sched_getaffinity(tid)), os.sched_getscheduler(tid)
                nice = os.getpriority(os.PRIO_PROCESS, tid)
                cgroups = read_control(Path(f"/proc/{tid}/cgroup")) or ""
                # Of a run that was killed: the next run ends its tasks and removes its cgroups.
                if f":/{OWN}" not in cgroups and not exits(tid):
                    yield name, f"{mask} {policy} {nice} {cgroups}"
            except OSError:
                continue


def sysctls() -> Iterator[tuple[str, str]]:
    """Every sysctl that can be read."""
    for folder, _, files in os.walk("/proc/sys"):
        for name in files:
            path = Path(folder) / name
            try:
                if not MOVING.search(str(path)) and path.stat().st_mode & stat.S_IRUSR:
                    yield str(path), path.read_bytes().decode(errors="replace")
            except OSError:
                continue


def ours() -> set[Path]:
    """Every cgroup at the top that bears our name, in whichever hierarchy."""
    return {place for mount in mounts() for place in mount.glob(f"{OWN}*")}


def family(pid: int) -> frozenset[int]:
    """A process and everything below it."""
    found, todo = set(), [pid]
    while todo:
        one = todo.pop()
        found.add(one)
        todo += procfs.children(one) or ()
    return frozenset(found)


def look(own: frozenset[int] = frozenset()) -> Facts:
    return dict([*control_files(), *threads(own), *sysctls()])


def changed(before: Facts, now: Facts, moving: set[str]) -> dict[str, tuple[str | None, str | None]]:
    """What differs, but for threads that ended or began: those are no work of ours."""
    keys = {key for key in before.keys() | now.keys() if not key.startswith("thread ")}
    keys |= {key for key in before.keys() & now.keys() if key.startswith("thread ")}
    return {key: (before.get(key), now.get(key)) for key in keys - moving if before.get(key) != now.get(key)}


def test_a_foreign_task_that_ends_is_no_change() -> None:
    """Nor while it has not been collected: where the kernel shows it then says nothing of where it was."""
    with cgroup("readonly-ended") as path, subprocess.Popen(["sleep", "600"]) as one:
        join(path, one.pid)
        name = f"thread {one.pid} {procfs.start_time(one.pid)}"
        before = dict(threads(frozenset()))
        one.kill()
        wait_for(lambda: "\nState:\tZ" in (read_control(f"/proc/{one.pid}/status") or ""), "its end")
        after = dict(threads(frozenset()))
    assert path in before[name]
    assert name not in after


def test_watch_changes_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    """No controller is turned on, no foreign cgroup, task or sysctl is another while it watches and when it ended."""
    with cgroup("readonly-test") as path:
        claims = tmp_path / "claims.yaml"
        claims.write_text(
            "apiVersion: pinproof/v1\nkind: Claims\n"
            f'claims: [{{name: db, cgroup: {path}, cpus: "0", isolation: container}}]\n'
        )
        left_by_others = ours()  # a run that was killed before this test began is not watch's work
        first = look()
        time.sleep(0.5)
        before = look()
        moving = {key for key in before if first.get(key) != before[key]}
        assert sum(key not in moving for key in before) > 500
        assert any(key.endswith("cgroup.subtree_control") for key in before.keys() - moving)

        command = [sys.executable, "-m", "toolkit", "watch", "--claims", str(claims), "--duration", "600"]
        watch = subprocess.Popen([*command, "--output", str(tmp_path)], stdout=subprocess.DEVNULL)
        unified = cgroupfs.detect().unified
        assert unified is not None
        canaries = f"{OWN}*-canary"
        both = f"{canaries}/*/cgroup.procs"
        wait_for(
            lambda: sum(path.parents[1] not in left_by_others for path in unified.glob(both)) == 2, "both canaries"
        )
        looked, end = 0, time.monotonic() + LOOKED_S
        while looked < LOOKS or time.monotonic() < end:
            own = family(watch.pid)
            # A canary starts in our own cgroups and joins: only the v2 hierarchy has one made for it.
            here = {place.parent for place in ours() - left_by_others}
            now = look(own)
            assert watch.poll() is None
            assert here <= {unified}
            assert changed(before, now, moving) == {}
            looked += 1
        watch.terminate()
        assert watch.wait(60) == 3  # nothing ran in the claim: undecided, not an error
        assert changed(before, look(), moving) == {}
        assert ours() <= left_by_others
