"""Hosts that cannot run the main job, made for real: one line that says what is missing, exit code 4, nothing left."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.apply_support import THIS_CENTURY, of_living_runs, sandboxes
from tests.integration.probe_lab import cgroup, wait_for
from toolkit.host.cgroup_mounts import detect

pytestmark = pytest.mark.beside

PINPROOF = (sys.executable, "-m", "toolkit")
CLAIMS = """apiVersion: pinproof/v1
kind: Claims
claims:
- {name: all, cgroup: PLACE, cpus: "0"}
"""
NO_BPF = ("setpriv", "--bounding-set=-bpf,-sys_admin,-perfmon", "--inh-caps=-bpf,-sys_admin,-perfmon")


def hidden(*folders: str) -> tuple[str, ...]:
    """A host on which these folders are empty."""
    script = f'for d in {" ".join(folders)}; do mount -t tmpfs none $d; done; exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, "sh")


BCC = importlib.util.find_spec("bcc")
assert BCC is not None
NO_BCC = hidden(str(Path(BCC.origin or "").parent), "/var/cache")
"""Nor anything that was compiled before: without a compiler that would do."""
NO_BTF = hidden("/sys/kernel/btf")
NO_ROOM = ("setpriv", "--bounding-set=-sys_resource", "prlimit", "--nofile=100:100")
LITTLE_ROOM = ("prlimit", "--nofile=60:4000")
STRANGE_CACHE = (
    *("unshare", "--mount", "sh", "-c"),
    'mount -t tmpfs none /var/cache; $0 /var/cache/pinproof; "$@"; code=$?; find /var/cache -type f >&2; exit $code',
)
"""A folder of kept units to which something is done; whatever is in it in the end is named."""
NO_HEADERS = hidden("/lib/modules", "/usr/src")

FOREIGN = {
    "pid": ("unshare", "--pid", "--fork", "--mount-proc"),
    "pid, the host's /proc": ("unshare", "--pid", "--fork"),
    "monotonic": ("unshare", "--time", "--fork", "--monotonic", "1000"),
    "monotonic, without a fork": ("unshare", "--time", "--monotonic", "-5"),
    "boottime": ("unshare", "--time", "--fork", "--boottime", "1000"),
}
INSIDE = (
    *("sh", "-c"),
    'unified=$1; place=$2; shift 2; echo $$ > $unified$place/cgroup.procs; exec unshare --cgroup --mount "$@"',
    "sh",
)
"""Become a task of the cgroup, which is then the root that it sees."""
REMOUNTED = ("sh", "-c", 'umount "$0" && mount -t cgroup2 none "$0" && exec "$@"')


@pytest.fixture
def place() -> Iterator[str]:
    """An empty cgroup to watch."""
    with cgroup(f"pinproof-lacks-{os.getpid()}") as path:
        yield path


def pinproof(tmp_path: Path, place: str, host: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command on such a host."""
    if shutil.which(host[0]) is None:
        pytest.skip(f"{host[0]} is not installed")
    claims = tmp_path / "claims.yaml"
    claims.write_text(CLAIMS.replace("PLACE", place))
    verbs = {
        "watch": ("watch", "--claims", str(claims), "--duration", "1"),
        "conformance": ("conformance", "--select", "quota-050-over"),
    }
    return subprocess.run(
        [*host, *PINPROOF, *verbs[words[0]], *words[1:], "--output", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("verb", ["watch", "conformance"])
@pytest.mark.parametrize(
    ("host", "said"),
    [
        (NO_BPF, "no bpf here: the kernel refuses it: Operation not permitted"),
        (NO_BCC, "python3-bpfcc"),
        (NO_BTF, "CONFIG_DEBUG_INFO_BTF"),
        (NO_ROOM, "open files: this process may have 100 open at once; "),
    ],
    ids=["bpf", "bcc", "btf", "files"],
)
def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, place: str, host: tuple[str, ...], said: str, verb: str
) -> None:
    """Neither a traceback nor a compiler's pages, and what to do."""
    before = sandboxes(THIS_CENTURY)
    done = pinproof(tmp_path, place, host, verb, *(("--bpf", "require") if verb == "watch" else ()))

    assert (done.returncode, done.stdout) == (4, "")
    assert said in done.stderr
    assert done.stderr.startswith("pinproof: ")
    assert done.stderr.count("\n") == 1
    # What a test beside this one runs is a living run's; what a run that could not begin leaves is of none.
    wait_for(lambda: sandboxes(THIS_CENTURY) - before <= of_living_runs(), "what this run made is gone")
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(
    ("host", "said"),
    [(NO_BPF, "no bpf here"), (NO_BCC, "python3-bpfcc"), (NO_BTF, "CONFIG_DEBUG_INFO_BTF")],
    ids=["bpf", "bcc", "btf"],
)
def test_a_watch_goes_on_in_part(tmp_path: Path, place: str, host: tuple[str, ...], said: str) -> None:
    """Each rung that lacks is the reason of what is undecided; nothing of it is green."""
    done = pinproof(tmp_path, place, host, "watch")

    assert done.returncode == 3, done.stdout + done.stderr
    assert "no BPF (" in (first := done.stderr.splitlines()[0])
    assert said in first
    assert "actions are not observed" in " ".join(done.stdout.split())


def test_a_soft_limit_is_raised_to_what_is_needed(tmp_path: Path, place: str) -> None:
    """The hard one suffices: nothing is reported."""
    done = pinproof(tmp_path, place, LITTLE_ROOM, "watch")

    assert done.returncode in (0, 3), done.stderr
    assert "open" not in done.stderr


def test_a_strange_cache_is_said(tmp_path: Path, place: str) -> None:
    """Compiled probes that others could have written are not read, none is written, and the user hears of it.

    What else is strange about a cache: ``tests/unit/probes/test_unit.py``, where nothing is compiled for it.
    """
    done = pinproof(tmp_path, place, (*STRANGE_CACHE, "install -d -o 65534"), "watch")

    assert done.returncode in (0, 3), done.stderr
    assert "belongs to user 65534" in done.stderr
    assert "are not read, and none is written" in done.stderr
    assert len([line for line in done.stderr.splitlines() if "armed: " not in line]) == 1, done.stderr


def test_no_kernel_headers_are_needed(tmp_path: Path, place: str) -> None:
    """With no header of any kernel in reach a window is watched and judged."""
    done = pinproof(tmp_path, place, NO_HEADERS, "watch")

    assert done.returncode in (0, 3), done.stderr
    assert "of the kernel's" in done.stdout


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path, place: str) -> None:
    """Before anything is watched."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = pinproof(tmp_path, place, ("env",), "watch", "--metrics-port", str(taken.getsockname()[1]))

    assert done.returncode == 2
    assert "in use" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("host", "verb"), [*((host, "watch") for host in FOREIGN), ("pid", "conformance"), ("boottime", "conformance")]
)
def test_a_foreign_namespace_is_said_in_one_line(tmp_path: Path, place: str, host: str, verb: str) -> None:
    """What /proc and the clock say there is not what the probes see: no evidence is better than a wrong one."""
    refused(pinproof(tmp_path, place, FOREIGN[host], verb), f"foreign {'pid' if 'pid' in host else 'time'} namespace")


@pytest.mark.parametrize("mount", ["the host's", "its own"])
def test_a_part_of_the_cgroup_tree_is_said_in_one_line(tmp_path: Path, place: str, mount: str) -> None:
    """Paths and levels would not be the kernel's: a pod outside would have no owner."""
    unified = str(detect().unified)
    inside = (*INSIDE, unified, place, *((*REMOUNTED, unified) if mount == "its own" else ()))
    refused(pinproof(tmp_path, place, inside, "watch"), "part of the cgroup tree")


def test_other_namespaces_do_not_matter(tmp_path: Path, place: str) -> None:
    """A cgroup namespace whose root is the host's, a clock without offset, and all others: everything is seen there."""
    host = ("unshare", "--cgroup", "--time", "--fork", "--mount", "--uts", "--ipc", "--net")
    done = pinproof(tmp_path, place, host, "watch")

    assert done.returncode in (0, 3), done.stderr
    assert "evidence-health" in done.stdout


def refused(done: subprocess.CompletedProcess[str], said: str) -> None:
    """Hold an answer against what it should be."""
    assert (done.returncode, done.stdout) == (4, "")
    assert said in done.stderr
    assert done.stderr.startswith("pinproof: ")
    assert done.stderr.count("\n") == 1
