"""Become a task of a cgroup without ever having run outside its CPUs, then execute a command.

Usage: ``start.py STATUS_FD STDERR CPUS WIDE COUNT PROCS… ARGV…``: ``STDERR`` a file for the command's errors (empty:
none), ``CPUS`` to run on before joining, as ``0,1`` (empty: no change), ``WIDE`` to ask for after joining (the kernel
keeps what the cpuset allows), ``COUNT`` ``cgroup.procs`` files in the order of joining, the identity last, and the
command.
Nothing is imported that is not needed: on a machine that is slow, or emulated, starting is most of a short run.

What goes wrong before the command runs is written to ``STATUS_FD``; it closes by itself when the command starts.
If the toolkit dies in between, its cleanup finds this task inside the cgroups, or removes them, and joining fails.
"""

import os
import sys


def main() -> int:
    """Do it; returns only on failure."""
    status, stderr, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[5])
    cpus, wide = ([int(cpu) for cpu in text.split(",") if cpu] for text in sys.argv[3:5])
    procs, argv = sys.argv[6 : 6 + count], sys.argv[6 + count :]
    step = "set the affinity"
    try:
        os.set_inheritable(status, False)
        # Who watches a machine that loads fill may have raised its own priority: a load has that of a container.
        os.setpriority(os.PRIO_PROCESS, 0, 0)
        if cpus:
            os.sched_setaffinity(0, cpus)
        for path in procs:
            step = f"join {path}"
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            os.write(descriptor, b"0")
            os.close(descriptor)
        if cpus:
            step = "widen the affinity"
            os.sched_setaffinity(0, wide)
        if stderr:
            step = f"open {stderr}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            os.dup2(os.open(stderr, flags, 0o600), 2)
        step = f"execute {argv[0]}"
        os.execv(argv[0], argv)  # noqa: S606 - the point of this program
    except (OSError, OverflowError, ValueError) as error:
        os.write(status, f"{step}: {getattr(error, 'strerror', None) or error}".encode())
    return 127


if __name__ == "__main__":
    sys.exit(main())
