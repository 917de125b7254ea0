"""Become a task of a cgroup without ever having run outside its CPUs, then execute a command.

The first argument is a JSON object: ``cpus`` (run here before joining; empty: no change), ``wide`` (CPUs to ask for
after joining; the kernel keeps what the cpuset allows), ``procs`` (``cgroup.procs`` files in the order of joining, the
identity last), ``stderr`` (file for the command's errors, or empty), ``status_fd`` and ``argv``.

What goes wrong before the command runs is written to ``status_fd``; it closes by itself when the command starts.
If the toolkit dies in between, its cleanup finds this task inside the cgroups, or removes them, and joining fails.
"""

import json
import os
import sys


def main() -> int:
    """Do it; returns only on failure."""
    spec = json.loads(sys.argv[1])
    status = spec["status_fd"]
    step = "set the affinity"
    try:
        os.set_inheritable(status, False)
        if spec["cpus"]:
            os.sched_setaffinity(0, spec["cpus"])
        for path in spec["procs"]:
            step = f"join {path}"
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            os.write(descriptor, b"0")
            os.close(descriptor)
        if spec["cpus"]:
            step = "widen the affinity"
            os.sched_setaffinity(0, spec["wide"])
        if spec["stderr"]:
            step = f"open {spec['stderr']}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            os.dup2(os.open(spec["stderr"], flags, 0o600), 2)
        step = f"execute {spec['argv'][0]}"
        os.execv(spec["argv"][0], spec["argv"])  # noqa: S606 - the point of this program
    except (OSError, OverflowError, ValueError) as error:
        os.write(status, f"{step}: {getattr(error, 'strerror', None) or error}".encode())
    return 127


if __name__ == "__main__":
    sys.exit(main())
