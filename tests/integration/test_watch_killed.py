"""SIGKILL of ``watch`` at any moment of its life: no process, no cgroup and no file of it is left after a clean-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.apply_support import THIS_CENTURY, of_living_runs, sandboxes
from tests.integration.probe_lab import BURSTS, cgroup, wait_for
from tests.json_lines import result_in
from toolkit.apply import runs
from toolkit.host import cgroupfs, procfs

pytestmark = [pytest.mark.integration, pytest.mark.beside]

CLAIMS = """apiVersion: pinproof/v1
kind: Claims
claims:
- {name: all, cgroup: PLACE, cpus: "0"}
"""


def nothing_left(before: set[Path]) -> None:
    """Wait until what has come is gone, but for what runs that live have made: those of tests beside this one."""
    wait_for(lambda: sandboxes(THIS_CENTURY) - before <= of_living_runs(), "its cgroups are gone")


@pytest.fixture
def place() -> Iterator[str]:
    """An empty cgroup to watch."""
    with cgroup(f"pinproof-killed-{os.getpid()}") as path:
        yield path


def hog(directory: Path) -> subprocess.Popen[bytes]:
    """A task that runs again and again in a cgroup."""
    join = f"open('{directory}/cgroup.procs', 'w').write('0')"
    task = subprocess.Popen([sys.executable, "-c", f"{join}\n{BURSTS}"])
    wait_for(lambda: str(task.pid) in (directory / "cgroup.procs").read_text().split(), "it has joined")
    return task


def helpers(session: int) -> list[int]:
    """Processes that compile for the watch of this process id."""
    found = []
    for pid in procfs.pids():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"probes.builder" in b" ".join(words) and str(session).encode() in words:
            found.append(pid)
    return found


def mapped(pid: int, what: bytes) -> bool:
    """Say whether a process has a library in memory."""
    try:
        return what in Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False


def programs(pid: int) -> bool:
    """Say whether a process holds BPF programs."""
    try:
        links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any("bpf-prog" in link for link in links)


MOMENTS: dict[str, Callable[[int], bool]] = {
    "helper started": lambda pid: bool(helpers(pid)),
    "compiler in memory": lambda pid: any(mapped(one, b"libbcc") for one in helpers(pid)),
    "programs loaded by the helper": lambda pid: any(programs(one) for one in helpers(pid)),
    "programs handed over": programs,
}


NOTHING_KEPT = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /var/cache; exec "$@"', "sh")
"""A host on which no compiled probes are kept: the helper is needed. The process stays the same one."""


@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_survives_a_kill(tmp_path: Path, place: str, moment: str) -> None:
    """Whatever it was doing: the helper ends with it, nothing was written to TMPDIR, the rest the journal names."""
    claims, folder = tmp_path / "claims.yaml", tmp_path / "tmp"
    claims.write_text(CLAIMS.replace("PLACE", place))
    folder.mkdir()
    before = sandboxes(THIS_CENTURY)
    words = ("watch", "--claims", str(claims), "--duration", "60", "--output", str(tmp_path / "runs"))
    child = subprocess.Popen(
        [*NOTHING_KEPT, sys.executable, "-m", "toolkit", *words],
        env=os.environ | {"TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: MOMENTS[moment](child.pid) or child.poll() is not None, moment)
        assert child.poll() is None, "it ended by itself"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()

    wait_for(lambda: helpers(child.pid) == [], "the helper has ended")
    assert runs.cleanup().problems == ()
    nothing_left(before)
    assert list(folder.iterdir()) == []


def test_a_compiler_that_dies_is_said_in_one_line(tmp_path: Path, place: str) -> None:
    """The library aborts in the helper: one line with the step, exit code 4 (played: the one here does not)."""
    claims, fake = tmp_path / "claims.yaml", tmp_path / "fake"
    claims.write_text(CLAIMS.replace("PLACE", place))
    fake.mkdir()
    (fake / "bcc.py").write_text(
        "import os\n__version__ = '9.9'\nclass PerfType: pass\nclass BPF:\n"
        "    def __init__(self, **_): os.write(2, b'terminate called\\n'); os.abort()\n"
    )
    before = sandboxes(THIS_CENTURY)
    words = ("--claims", str(claims), "--bpf", "require", "--output", str(tmp_path / "runs"))
    done = subprocess.run(
        [sys.executable, "-m", "toolkit", "watch", *words],
        env=os.environ | {"PYTHONPATH": str(fake)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        "pinproof: the helper that compiles and loads the probes was killed by SIGABRT while compiling the probes with "
        "bcc 9.9: terminate called\n"
    )
    nothing_left(before)
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_a_claim_too_deep_is_refused_and_the_deepest_is_watched(tmp_path: Path, place: str) -> None:
    """A claim so deep that the programs do not look there: one line, exit code 2; one level higher it is judged."""
    below = "/".join(["x"] * 22)
    directory = cgroupfs.identity_dir(cgroupfs.detect(), f"{place}/{below}")
    (directory / "y").mkdir(parents=True)

    def watch(path: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "claims.yaml").write_text(CLAIMS.replace("PLACE", path))
        words = ("watch", "--claims", str(tmp_path / "claims.yaml"), "--duration", "0.3", "--output", str(tmp_path))
        task = hog(cgroupfs.identity_dir(cgroupfs.detect(), path))
        try:
            return subprocess.run(
                [sys.executable, "-m", "toolkit", *words], capture_output=True, text=True, check=False
            )
        finally:
            task.kill()
            task.wait()

    refused = watch(f"{place}/{below}/y")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "24 levels deep" in refused.stderr
    seen = watch(f"{place}/{below}")
    assert "no task of it was seen to run" not in seen.stdout, seen.stdout + seen.stderr
    assert "cpuset-containment" in seen.stdout


def test_as_many_claims_as_the_file_has(tmp_path: Path, place: str) -> None:
    """More claims than the usual number: the programs are made for as many, and the last is judged like the first."""
    top = cgroupfs.identity_dir(cgroupfs.detect(), place)
    lines = []
    for number in range(600):
        (top / f"c{number}").mkdir()
        lines.append(f'- {{name: c{number}, cgroup: {place}/c{number}, cpus: "0"}}')
    claims = tmp_path / "claims.yaml"
    claims.write_text("apiVersion: pinproof/v1\nkind: Claims\nclaims:\n" + "\n".join(lines) + "\n")
    words = ("watch", "--claims", str(claims), "--duration", "0.3", "--json", "--output", str(tmp_path / "runs"))
    task = hog(top / "c599")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "toolkit", *words],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        task.kill()
        task.wait()

    assert done.returncode in (0, 1, 3), done.stderr
    verdicts = {
        row["subject"]: row for row in result_in(done.stdout)["verdicts"] if row["rule"] == "cpuset-containment"
    }
    assert len(verdicts) == 600
    assert verdicts["c599"]["measures"]
