"""Try every verb once with an installed pinproof, and print how each came out as JSON: a row of docs/distributions.md.

    python3 verbs_tried.py --how WORDS [--commit ID] [--command WORDS] [--work DIRECTORY] -- PROGRAM...

PROGRAM is how pinproof is called there (``pinproof``; ``.venv/bin/pinproof``; ``podman run … pinproof:0.1.0-full``).
This file needs Python's own library and nothing beside itself, so that it runs where the program is: in a chroot, a
guest. A verb passed if it ended with exit code 0; 3 is undecided, 4 means that this host cannot run it. What a verb
reads is made by the verbs before it, or written here: a scenario, a claims file, an answer of systemd, a kubelet's
state file.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

SCHEMA = "pinproof.tried/1"
OUTCOMES = {0: "passed", 3: "undecided", 4: "cannot"}
"""Exit code -> what a row says; every other code is ``failed``."""

TRIES: dict[str, tuple[str, ...]] = {
    "doctor": ("--json",),
    "run": ("{work}/scenario.yaml", "--output", "{work}/runs"),
    "conformance": ("--select", "exclusive-and-shared", "--output", "{work}/sessions"),
    "inject": ("quota-imposed", "--output", "{work}/injected"),
    "watch": ("--claims", "{work}/claims.yaml", "--duration", "2", "--output", "{work}/watched"),
    "topology": ("--json",),
    "rules": (),
    "explain": ("quota-throttling",),
    "plan": ("{work}/scenario.yaml",),
    "simulate": ("{work}/vectors.json", "--check"),
    "claims": ("--systemd", "{work}/systemctl.txt"),
    "capture": ("{work}/node.tar.gz", "--force", "--root", "{work}/node"),
    "judge": ("{run}",),
    "report": ("{run}", "--format", "junit"),
    "runs": ("list", "--output", "{work}/runs"),
    "compare": ("{run}", "{run}"),
    "fleet": ("{work}/runs",),
    "bundle": ("{run}", "--output", "{work}/bundle.tar.gz"),
    "status": ("--output", "{work}/runs"),
    "cleanup": (),
}
"""Verb -> its words, in the order in which they are tried: those that load programs into the kernel first."""

FILES = {
    "scenario.yaml": """\
apiVersion: pinproof/v1
kind: Scenario
name: tried
title: "one container without requests; a busy machine is not in its way"
kubelet: {cpuManagerPolicy: none}
pods:
  - apiVersion: v1
    kind: Pod
    metadata: {name: web}
    spec:
      containers:
        - {name: app}
workloads:
  web/app: [{kind: spin, threads: 1}]
durationSeconds: 2.0
""",
    "claims.yaml": """\
apiVersion: pinproof/v1
kind: Claims
claims:
  - name: tried
    cgroup: /pinproof-tried
    cpus: "0"
""",
    "systemctl.txt": """\
Id=web.service
ControlGroup=/system.slice/web.service
ActiveState=active
LoadState=loaded
MainPID=1
CPUQuotaPerSecUSec=500ms
CPUQuotaPeriodUSec=100ms
AllowedCPUs=0
AllowedMemoryNodes=
""",
    "vectors.json": json.dumps(
        {
            "format": "kubelet-resource-manager-vectors/1",
            "kubernetes": "v1.36.2",
            "area": "tried",
            "machines": {
                "two": {
                    "description": "two CPUs",
                    "cpus": [[0, 0, 0, 0, None], [1, 1, 0, 0, None]],
                    "numa": [{"id": 0, "memory": 1 << 30, "hugepages": {}, "distances": [10]}],
                }
            },
            "scenarios": [
                {
                    "id": "refused",
                    "description": "no such policy",
                    "machine": "two",
                    "kubelet": {"cpuManagerPolicy": "no-such-policy"},
                    "events": [],
                    "expect": {
                        "startup_error": {"stage": "cpu-manager", "message": 'unknown policy: "no-such-policy"'}
                    },
                }
            ],
        }
    ),
    "node/var/lib/kubelet/cpu_manager_state": '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}',
}


READS = ("judge", "report", "fleet", "status")
"""Verbs that end with the verdict of what they read: they passed if they say of the run what the run itself said."""
LOADS = ("doctor", "run", "conformance", "inject", "watch")
"""Verbs that load programs into the kernel."""
UNDECIDED = re.compile(r"^(?:Undecided|Skipped .*)\n((?:  .*\n)+)", re.MULTILINE)
"""What a verb says of verdicts, or of scenarios that it could not run."""


def outcome(code: int, said: int = 0) -> str:
    """Return what a verb's exit code means for a row. :param said: what the run ended with that the verb reads."""
    if code == said:
        return "passed"
    return "failed" if code == 0 else OUTCOMES.get(code, "failed")


def reason(out: str, errors: str) -> str:
    """Return why a verb did not pass: the first undecided verdict or skipped scenario, else its last words."""
    found = UNDECIDED.search(out)
    return " ".join(found[1].split())[:200] if found else last_line(errors) or last_line(out)


def last_line(text: str) -> str:
    """Return the last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


@contextlib.contextmanager
def busy_cgroup(name: str) -> Iterator[None]:
    """Have a cgroup with a task that works on CPU 0 while the block runs, where cgroups can be made."""
    roots = cgroup_roots(Path("/proc/self/mounts").read_text(encoding="utf-8"))
    groups = [root / name for root in roots]
    work = "import os, time\nos.sched_setaffinity(0, {0})\nwhile True: time.sleep(0.001)"
    with subprocess.Popen([sys.executable, "-c", work]) as task:
        try:
            for group in groups:
                with contextlib.suppress(OSError):
                    group.mkdir(exist_ok=True)
                    keep_on_first_cpu(group)
                    (group / "cgroup.procs").write_text(str(task.pid), encoding="ascii")
            yield
        finally:
            task.kill()
            task.wait()
            for group in groups:
                remove(group)


def cgroup_roots(mounts: str) -> list[Path]:
    """Return where cgroups of v2 and v1 cpusets are made. :param mounts: the text of /proc/mounts."""
    rows = [line.split() for line in mounts.splitlines()]
    v2 = [Path(row[1]) for row in rows if row[2] == "cgroup2"]
    v1 = [Path(row[1]) for row in rows if row[2] == "cgroup" and "cpuset" in row[3].split(",")]
    return v2[:1] + v1[:1]


def keep_on_first_cpu(group: Path) -> None:
    """Write what is claimed of a cgroup, where it has a cpuset; v1 takes no task before it has memory nodes."""
    if (group / "cpuset.cpus").is_file():
        (group / "cpuset.cpus").write_text("0", encoding="ascii")
        with contextlib.suppress(FileNotFoundError):  # the root of v2
            nodes = (group.parent / "cpuset.mems").read_text(encoding="ascii")
            (group / "cpuset.mems").write_text(nodes, encoding="ascii")


def remove(group: Path) -> None:
    """Remove a cgroup as soon as the kernel has taken its last task out of it."""
    for _ in range(50):
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return


@contextlib.contextmanager
def turn(lock: Path | None) -> Iterator[None]:
    """Hold a lock while the block runs. :param lock: ``None``: without one."""
    if lock is None:
        yield
        return
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_of(work: Path) -> str:
    """Return the directory of a run that was saved, for the verbs that read one."""
    return str(next(iter(sorted((work / "runs").glob("*/result.json"))), work / "no-run/result.json").parent)


Beside = Callable[[str], contextlib.AbstractContextManager[None]]
"""What makes a cgroup of this name, in which something works, for the verb that watches."""


def try_verbs(
    program: Sequence[str], work: Path, beside: Beside, lock: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Try them all.

    :param work: a directory that the program can read and write under this name.
    :param lock: held while a verb loads programs into the kernel.
    """
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, encoding="utf-8")
    found: dict[str, dict[str, Any]] = {}
    for loads, verbs in groupby(TRIES, lambda verb: verb in LOADS):
        with turn(lock if loads else None):
            for verb in verbs:
                with beside("pinproof-tried") if verb == "watch" else contextlib.nullcontext():
                    found[verb] = try_verb(program, verb, work, found["run"]["code"] if verb in READS else 0)
                one = found[verb]
                words = (f"{verb}:", one["outcome"], f"({one['seconds']} s)", one.get("said", ""))
                print(*words, file=sys.stderr, flush=True)
    return found


def try_verb(program: Sequence[str], verb: str, work: Path, said: int) -> dict[str, Any]:
    """Try one. :param said: the exit code of the run that it reads, 0 if it reads none."""
    given = [word.format(work=work, run=run_of(work)) for word in TRIES[verb]]
    began = time.monotonic()
    done = subprocess.run(
        [*program, verb, *given], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    came = outcome(done.returncode, said)
    found = {
        "words": " ".join(given).replace(str(work), "W").replace(Path(run_of(work)).name, "RUN"),
        "outcome": came,
        "code": done.returncode,
        "seconds": round(time.monotonic() - began, 1),
    }
    if came != "passed":
        found["said"] = reason(done.stdout, done.stderr).replace(str(work), "W")
    return found


def distribution() -> str:
    """Return the name that the distribution gives itself."""
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    return fields.get("PRETTY_NAME", "unknown").strip('"')


def main(words: Sequence[str] | None = None, beside: Beside = busy_cgroup) -> None:
    """Try the verbs, print the document; exit code 1 where a verb failed. :param words: as given to this program."""
    parser = argparse.ArgumentParser(description="Try every verb of pinproof once.")
    parser.add_argument("--how", required=True, help="how it was installed")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--command", default="", help="what does it again")
    parser.add_argument("--distribution", default=distribution(), help="of the place where PROGRAM runs")
    parser.add_argument("--work", type=Path, help="a directory to work in; it must be empty, and stays")
    parser.add_argument("--out", type=Path, help="write the document to this file")
    parser.add_argument("--lock", type=Path, help="hold this file's lock while a verb loads programs into the kernel")
    parser.add_argument("program", nargs="+")
    given = parser.parse_args(words)
    began = time.strftime("%Y-%m-%d", time.gmtime())
    said = subprocess.run(
        [*given.program, "--version"], capture_output=True, text=True, check=False
    ).stdout.splitlines()
    with tempfile.TemporaryDirectory() if given.work is None else contextlib.nullcontext(given.work) as place:
        verbs = try_verbs(given.program, Path(place), beside, given.lock)
    document = {
        "schema": SCHEMA,
        "how": given.how.replace("_", " "),
        "distribution": given.distribution,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "version": said[0] if said else "",
        "about": said[1] if len(said) > 1 else "",
        "date": began,
        "commit": given.commit,
        "command": given.command.replace("_", " "),
        "verbs": verbs,
    }
    text = json.dumps(document, indent=1) + "\n"
    if given.out is None:
        print(text, end="")
    else:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text, encoding="utf-8")
    sys.exit(any(one["outcome"] == "failed" for one in verbs.values()))


if __name__ == "__main__":
    main()
