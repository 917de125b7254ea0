"""The watch's own priority: each thread has it, children have not, and what is out of range is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from toolkit.cli.main import cli
from toolkit.errors import HostUnsupportedError
from toolkit.host.priority import Priority

LOOK = """
import os, threading
from toolkit.host.priority import Priority
stop = threading.Event()
one = threading.Thread(target=stop.wait); one.start()
Priority({}).apply()
tids = [int(name) for name in os.listdir("/proc/self/task")]
print([(os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK, os.getpriority(os.PRIO_PROCESS, tid)) for tid in tids])
child = os.fork()
if child == 0:
    print((os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)), flush=True)
    os._exit(0)
os.waitpid(child, 0)
stop.set()
"""


@pytest.mark.parametrize("arguments", ["nice=-5", "realtime=3"])
def test_every_thread_has_it_and_no_child(arguments: str) -> None:
    """A canary and a container tool run as they would without."""
    done = subprocess.run([sys.executable, "-uc", LOOK.format(arguments)], capture_output=True, text=True, check=False)
    if "CAP_SYS_NICE" in done.stderr:
        pytest.skip("not allowed here")
    nice = os.getpriority(os.PRIO_PROCESS, 0)  # ours, which a realtime policy leaves as it is
    wanted = (os.SCHED_RR, nice) if "realtime" in arguments else (os.SCHED_OTHER, -5)
    assert done.stdout.splitlines() == [str([wanted] * 2), str((os.SCHED_OTHER, 0))], done.stderr


def test_nothing_asked_for_changes_nothing() -> None:
    """A priority that it was started with stays."""
    before = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    Priority().apply()
    assert (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)) == before


@pytest.mark.parametrize(
    ("priority", "needs"), [(Priority(nice=-20), "CAP_SYS_NICE"), (Priority(realtime=9), "rt_runtime")]
)
def test_a_refusal_is_one_line(priority: Priority, needs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is missing."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with pytest.raises(HostUnsupportedError, match=needs):
        priority.apply()


@pytest.mark.parametrize(
    "options", [["--nice", "20"], ["--nice", "-21"], ["--nice", "x"], ["--rt", "0"], ["--rt", "100"], ["--rt", "1.5"]]
)
def test_out_of_range_is_refused(options: list[str]) -> None:
    """Exit code 2, and the range is said."""
    done = CliRunner().invoke(cli, ["watch", "--kubelet", *options])
    assert done.exit_code == 2
    assert options[0] in done.stderr


def test_both_are_one_too_many() -> None:
    """Niceness means nothing to a real-time task."""
    done = CliRunner().invoke(cli, ["watch", "--kubelet", "--nice", "1", "--rt", "1"])
    assert (done.exit_code, "--nice and --rt" in done.stderr) == (2, True)
