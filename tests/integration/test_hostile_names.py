"""Real tasks and real cgroups with names of every byte that the kernel takes, from the probes to every rendering.

The expectations are the bytes that were given to the kernel, not what a reader made of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from probes.masks.status import parse_status
from tests.integration.probe_lab import BURSTS, remove
from toolkit.host import cgroupfs, procfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.text import names

pytestmark = [pytest.mark.integration, pytest.mark.beside]

ONLINE = sorted(os.sched_getaffinity(0))
PINPROOF = [sys.executable, "-m", "toolkit"]
EVERY_BYTE = bytes(number for number in range(1, 256) if number not in b"/\n")
"""A directory's name may have 255 bytes: these 253 are all that the kernel takes for a cgroup's (it refuses a newline,
so that /proc/<pid>/cgroup stays one line)."""
COMM = b"x\nFAILED\x1b[2J\xff\\"
NAMED = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1]), 0, 0, 0)
os.sched_setaffinity(0, {int(sys.argv[2])})
with open(bytes.fromhex(sys.argv[3]) + b"/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
print(flush=True)
"""

SLEEPER = """
import ctypes, signal, sys
ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1]), 0, 0, 0)
print(flush=True)
signal.pause()
"""


@contextlib.contextmanager
def made(*paths: bytes) -> Iterator[list[bytes]]:
    """Make cgroups (parents first) in the identity hierarchy; they are removed, children first."""
    unified = cgroupfs.detect().unified
    assert unified is not None
    directories = [os.fsencode(unified) + path for path in paths]
    begun: list[bytes] = []
    try:
        for directory in directories:
            os.mkdir(directory)  # noqa: PTH102 - bytes
            begun.append(directory)
        yield directories
    finally:
        for directory in reversed(begun):
            remove(Path(os.fsdecode(directory)))


@contextlib.contextmanager
def spinning(comm: bytes, cpu: int, directory: bytes) -> Iterator[int]:
    """A process of that name that runs again and again, on one CPU, in one cgroup."""
    argv = [sys.executable, "-c", NAMED + BURSTS, comm.hex(), str(cpu), directory.hex()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            yield process.pid
        finally:
            process.kill()


def run(*arguments: str) -> tuple[int, str, str]:
    """Run a verb; whatever it prints must be UTF-8 and printable, line by line."""
    done = subprocess.run([*PINPROOF, *arguments], capture_output=True, check=False, timeout=120)
    out, err = done.stdout.decode(), done.stderr.decode()
    for line in (out + err).split("\n"):
        assert line.isprintable(), repr(line)
    return done.returncode, out, err


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.skipif(len(ONLINE) < 2, reason="needs two CPUs")
def test_every_byte_in_a_name_reaches_every_rendering(tmp_path: Path) -> None:
    """A claim, its parent, an intruder's cgroup, a foreign pod below podsRoot: watched, judged, and named exactly."""
    top = b"/pinproof-names-%d" % os.getpid()
    parent, pods = top + b"-p" + EVERY_BYTE[:100], top + b"-k\xff\x1b[31m"
    claim, pod, stranger = parent + b"/" + EVERY_BYTE, pods + b"/" + EVERY_BYTE, top + b"-s\xfe\r\xe2\x80\xae"
    claims = tmp_path / "claims.yaml"
    document = {
        "apiVersion": "pinproof/v1",
        "kind": "Claims",
        "podsRoot": names.shown(pods),
        "claims": [
            {"name": "db", "cgroup": names.shown(claim), "cpus": str(ONLINE[0]), "isolation": "container"},
        ],
    }
    claims.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    port = free_port()
    with made(parent, claim, pods, pod, stranger) as (_, in_claim, _, in_pod, outside), contextlib.ExitStack() as stack:
        tids = {
            name: stack.enter_context(spinning(COMM, cpu, directory))
            for name, cpu, directory in (
                ("escaper", ONLINE[1], in_claim),
                ("pod", ONLINE[0], in_pod),
                ("stranger", ONLINE[0], outside),
            )
        }
        # The kernel keeps 15 bytes of a name, all of them as they are.
        assert Path(f"/proc/{tids['pod']}/comm").read_bytes() == COMM + b"\n"
        saving = ("--output", str(tmp_path / "runs"), "--metrics-detail", "claim", "--metrics-port", str(port))
        watching = subprocess.Popen(
            [*PINPROOF, "watch", "--claims", str(claims), "--duration", "1.5", *saving],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        metrics = scrape(port)
        out, err = (text.decode() for text in watching.communicate(timeout=120))

    assert watching.returncode == 1, err
    for line in (out + err).split("\n"):
        assert line.isprintable(), repr(line)
    live = f" db: {names.shown(COMM)} ({tids['escaper']}) ran on CPU {ONLINE[1]}, outside its set"
    assert [line[8:] for line in err.split("\n") if "outside its set" in line] == [live]
    assert {sample.labels.get("claim") for family in metrics for sample in family.samples} >= {"db"}
    (saved,) = (tmp_path / "runs").iterdir()
    check_evidence(saved, tids, claim, pod, stranger)
    check_renderings(saved, tmp_path)


def scrape(port: int) -> list[object]:
    """Read the metrics once they are served; a parser that is not ours splits them."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return list(text_string_to_metric_families(answer.read().decode()))
        except OSError:
            assert time.monotonic() < deadline, "no metrics"
            time.sleep(0.05)


def check_evidence(saved: Path, tids: dict[str, int], claim: bytes, pod: bytes, stranger: bytes) -> None:
    """What was saved is UTF-8 JSON, and gives back the bytes that the kernel was given."""
    evidence = json.loads((saved / "evidence.json").read_bytes().decode())
    intruders = {row["tid"]: row for row in evidence["intruders"]}
    for name, cgroup, owner in (("pod", pod, "foreign-pod"), ("stranger", stranger, "system")):
        row = intruders[tids[name]]
        assert (names.raw(row["cgroup"]), names.raw(row["comm"]), row["owner"]) == (cgroup, COMM, owner)
    offender = next(row for row in evidence["offenders"] if row["tid"] == tids["escaper"])
    assert names.raw(offender["comm"]) == COMM
    masks = [row for row in evidence["thread_masks"] if row["tid"] == tids["escaper"]]
    assert {names.raw(row["comm"]) for row in masks} == {COMM}
    assert claim in {names.raw(row["cgroup"]) for row in evidence["files_before"]}


def check_renderings(saved: Path, folder: Path) -> None:
    """Every rendering names the tasks, stays printable line by line, and is what its format wants."""
    spelt = names.shown(COMM)
    code, table, _ = run("judge", str(saved))
    assert code == 1
    assert "exclusive-cpus" in table
    assert json.loads(run("judge", str(saved), "--json")[1])["outcome"] == "failed"
    text = run("report", str(saved), "--format", "junit")[1]
    details = [failure.text or "" for failure in ElementTree.fromstring(text).iter("failure")]
    assert any(f"offender: {spelt} (tid " in detail for detail in details)
    assert spelt in run("report", str(saved))[1]
    target = folder / "out.json"
    run("report", str(saved), "--format", "json", "--output", str(target))
    offenders = [row for one in json.loads(target.read_text())["verdicts"] for row in one["offenders"]]
    assert COMM in {names.raw(row["comm"]) for row in offenders}
    assert run("compare", str(saved), str(saved))[0] == 0


def test_files_with_such_names_are_named_in_one_line(tmp_path: Path) -> None:
    """A missing claims file, a missing run and a claim without a cgroup: one line each, the name spelt."""
    name = b"a\nFAILED\x1b[2J\xff"
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    for verb in (("judge", path), ("watch", "--claims", path), ("report", path), ("plan", path)):
        code, out, err = run(*verb)
        assert (code, out) == (2, ""), verb
        assert err.count("\n") == 1
        assert names.shown(name) in err, verb


def test_a_task_is_named_alike_by_every_reader() -> None:
    """The readers of /proc agree on a name, whatever the kernel escapes where, and it forges no line of theirs."""
    comm = b"\n\\n\r\x85Tgid:\t1\xff"
    assert len(comm) < 16
    argv = [sys.executable, "-c", SLEEPER, comm.hex()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            status = parse_status(read_control(Path(f"/proc/{process.pid}/status")) or "")

            assert status is not None
            assert (status.pid, names.raw(status.comm)) == (process.pid, comm)
            assert names.raw(procfs.comm(process.pid)) == comm
            assert psutil.Process(process.pid).ppid() == os.getpid()
        finally:
            process.kill()


def test_a_fault_in_such_a_cgroup_is_undone_after_a_kill(tmp_path: Path) -> None:
    """The journal names the control file so that it is found again: the quota is back after SIGKILL and cleanup."""
    name = b"/pinproof-names-%d-i" % os.getpid() + EVERY_BYTE[:120]
    hierarchy = cgroupfs.detect()
    cpu = os.fsencode(hierarchy.controller_dir("cpu"))
    limit = b"cpu.max" if hierarchy.is_v2("cpu") else b"cpu.cfs_quota_us"
    wanted = b"50000 100000" if hierarchy.is_v2("cpu") else b"50000"
    directory = cpu + name
    os.mkdir(directory)  # noqa: PTH102 - bytes
    try:
        path = Path(os.fsdecode(directory + b"/" + limit))
        path.write_bytes(wanted)
        target = ("--target", names.shown(name), "--i-know-this-breaks-isolation")
        with subprocess.Popen(
            [*PINPROOF, "inject", "quota-reset", *target, "--json"], stdout=subprocess.PIPE
        ) as planted:
            assert planted.stdout is not None
            change = json.loads(planted.stdout.readline())["changes"][0]
            assert names.raw(change["path"]) == directory + b"/" + limit
            assert path.read_bytes().split()[0] in (b"max", b"-1")
            planted.kill()
        code, out, err = run("cleanup")
        assert (code, err) == (0, ""), out
        assert path.read_bytes().split()[0] == b"50000"
    finally:
        os.rmdir(directory)  # noqa: PTH106 - bytes
