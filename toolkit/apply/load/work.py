"""Workloads that no generator at hand does the way they are needed here.

Usage: ``work.py KIND WORKERS [ARGUMENTS]``. The main process names itself ``pinproof-main`` and forks its workers,
which name themselves ``pinproof-KIND``; if one dies, the main process ends too. ``quiet`` has threads in place of
workers.

``quiet``: sleeps in several threads. ``escape``: asks sched_setaffinity for every CPU in turn, 2 ms of work on each.
``exec``: short-lived fork + exec children (stress-ng refuses to do that as root). ``syscall``: reads /dev/zero in
64 KiB pieces, so that nearly all its time is kernel mode in system calls of some microseconds.
``huge PAGE BYTES``: maps BYTES of huge pages of PAGE bytes each and writes to every page, ten times a second.
``pulse MS``: so many milliseconds of sleep, 0.01 ms of work, for ever.
"""

import os
import signal
import sys
import time


def name_self(name: str) -> None:
    """Set the name in /proc/pid/comm: the sign that the workload is ready."""
    with open("/proc/self/comm", "w", encoding="ascii") as stream:  # noqa: PTH123 - starts twice as fast without pathlib
        stream.write(name)


HOP_NS = 2_000_000
"""How long ``escape`` works between two hops. Hops every 50 us beside a spinner of the same cgroup leave a task of
another cgroup 1 % of a CPU that it should have half of (Linux 6.18, cgroup v1 shares), and what watches would starve;
at 2 ms it has 76 %."""


def quiet(threads: int) -> None:
    """Sleep in as many threads."""
    import threading  # takes as long to import as all else together: not for the others

    for _ in range(threads - 1):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    name_self("pinproof-quiet")
    while True:
        signal.pause()


def escape() -> None:
    """Try to leave the cpuset: every single CPU, then all of them, some work in between, one write and sleep a round.

    The kernel counts the writes: so others know how many rounds were made. It counts sleeps, too, but a task that is
    moved off its CPU sleeps as well while that is done.
    """
    cpus = range(os.sysconf("SC_NPROCESSORS_CONF"))
    away = os.open("/dev/null", os.O_WRONLY)
    name_self("pinproof-escape")
    while True:
        for wanted in (*({cpu} for cpu in cpus), set(cpus)):
            try:
                os.sched_setaffinity(0, wanted)
            except OSError:
                # Nothing of what was asked for is in the cpuset: the kernel said no.
                continue
            end = time.monotonic_ns() + HOP_NS
            while time.monotonic_ns() < end:
                pass
        os.write(away, b".")
        time.sleep(0.00005)


def pulse(period_s: float) -> None:
    """Run for 0.01 ms, then sleep; to wake up costs as much again, and more."""
    name_self("pinproof-pulse")
    while True:
        end = time.monotonic_ns() + 10_000
        while time.monotonic_ns() < end:
            pass
        time.sleep(period_s)


def exec_storm() -> None:
    """Start short-lived programs, four at a time."""
    program = next(path for path in ("/usr/bin/true", "/bin/true") if os.access(path, os.X_OK))
    name_self("pinproof-exec")
    running = 0
    while True:
        if running == 4:
            os.wait()
            running -= 1
        os.posix_spawn(program, [program], {})
        running += 1


def syscall() -> None:
    """Stay in kernel mode."""
    source = os.open("/dev/zero", os.O_RDONLY | os.O_CLOEXEC)
    buffers = [bytearray(1 << 16)]
    name_self("pinproof-syscall")
    while True:
        os.readv(source, buffers)


MAP_HUGETLB = 0x40000
MAP_HUGE_SHIFT = 26
"""``include/uapi/linux/mman.h``; not in the standard library."""


def huge() -> None:
    """Have huge pages, all of them touched; a page that the limit refuses ends it (SIGBUS)."""
    import mmap  # for this one only

    page, size = int(sys.argv[3]), int(sys.argv[4])
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB | (page.bit_length() - 1) << MAP_HUGE_SHIFT
    memory = mmap.mmap(-1, size, flags=flags)
    count = 0
    while True:
        for place in range(0, size, page):
            memory[place] = count & 0xFF
        if count == 0:
            name_self("pinproof-huge")
        count += 1
        time.sleep(0.1)


def main() -> int:
    """Run the workers until one of them ends."""
    kind, workers = sys.argv[1], int(sys.argv[2])
    if kind == "quiet":
        quiet(workers)
    if kind == "pulse":
        pulse(int(sys.argv[3]) / 1000)
    work = {"escape": escape, "exec": exec_storm, "syscall": syscall, "huge": huge}[kind]
    name_self("pinproof-main")
    for _ in range(workers):
        if os.fork() == 0:
            work()
    return os.waitstatus_to_exitcode(os.wait()[1])


if __name__ == "__main__":
    sys.exit(main())
