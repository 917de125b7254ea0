"""``deploy/seccomp/pinproof.json``: a container with it watches and judges as one without, and can do little else.

runc loads the profile, as under a kubelet; the container is this host's files, its process ids and its cgroups.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.working_cgroup import spinner, write_claim
from tools import deploy

PROFILE = deploy.ROOT / deploy.FOLDER / "seccomp/pinproof.json"
pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(shutil.which("runc") is None, reason="needs runc, which loads the profile"),
]


def contained(
    folder: Path, profile: dict[str, Any], *words: str, more: tuple[str, ...] = (), seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run Python with these words in a container with this profile, the capabilities of the DaemonSet and ``more``."""
    bundle = folder / "bundle"
    (bundle / "rootfs").mkdir(parents=True, exist_ok=True)
    binds = []
    for place in sorted(Path("/").iterdir()):
        inside = bundle / "rootfs" / place.name
        if place.is_symlink():
            inside.unlink(missing_ok=True)
            inside.symlink_to(place.readlink())
        elif place.is_dir():
            binds.append({"destination": str(place), "type": "bind", "source": str(place), "options": ["rbind", "rw"]})
    sets = ("bounding", "effective", "permitted", "inheritable", "ambient")
    allowed = [f"CAP_{one}" for one in (*deploy.CAPABILITIES, *more)]
    config = {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs"},
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": [sys.executable, *words],
            "env": [f"{name}={value}" for name, value in os.environ.items() if "\n" not in value],
            "cwd": str(deploy.ROOT),
            "noNewPrivileges": True,
            "capabilities": dict.fromkeys(sets, allowed),
        },
        "mounts": binds,
        "linux": {"namespaces": [{"type": "mount"}], "seccomp": profile},
    }
    (bundle / "config.json").write_text(json.dumps(config))
    name = f"pinproof-filtered-{os.getpid()}"  # its cgroup: no claim is about it
    return subprocess.run(
        ["runc", "--root", str(folder / "runc"), "run", "--bundle", str(bundle), name],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


@pytest.fixture(scope="module")
def profile() -> dict[str, Any]:
    """The profile that is deployed."""
    found: dict[str, Any] = json.loads(PROFILE.read_text())
    return found


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A claim over a task that works."""
    with spinner(f"pinproof-seccomp-{os.getpid()}") as cgroup:
        yield write_claim(tmp_path_factory.mktemp("claims"), "claims", cgroup, min(os.sched_getaffinity(0)))


def test_a_watch_works_under_the_profile(tmp_path: Path, profile: dict[str, Any], claims: Path) -> None:
    """With programs in the kernel, a sampler and canaries: the verdict of every switch, and nothing blind by it."""
    words = ("-m", "toolkit", "watch", "--claims", str(claims), "--duration", "1", "--bpf", "require")
    done = contained(tmp_path, profile, *words, "--output", str(tmp_path / "runs"))
    found = list((tmp_path / "runs").glob("*/result.json"))
    assert found, done.stdout + done.stderr
    result = json.loads(found[0].read_text())
    outcomes = {one["rule"]: one["outcome"] for one in result["verdicts"]}
    assert outcomes["cpuset-containment"] == "passed", done.stdout + done.stderr
    assert result["coverage"]["switches_judged"] > 0
    assert result["coverage"]["cpus_unsampled"] == ""


@pytest.mark.slow
def test_a_conformance_run_is_judged_under_the_profile(tmp_path: Path, profile: dict[str, Any]) -> None:
    """As the Job of ``deploy/``: cgroups, loads of other programs, promises that are broken on purpose."""
    chosen = ("exclusive-and-shared", "exec-storm", "quota-050-set", "burst-create")
    words = [word for one in chosen for word in ("--select", one)]
    output = ("--on-live-node", "--json", "--output", str(tmp_path / "runs"))
    command = ("-m", "toolkit", "conformance", *words, *output)
    done = contained(tmp_path, profile, *command, more=("SYS_NICE",), seconds=280)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    passed = {one["name"] for one in json.loads(done.stdout)["scenarios"] if one["outcome"] == "passed"}
    assert passed == set(chosen)


def test_what_is_not_in_the_list_is_refused(tmp_path: Path, profile: dict[str, Any]) -> None:
    """A namespace of its own, here: as if the kernel had no such call."""
    code = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); print(libc.unshare(1 << 26), ctypes.get_errno())"
    done = contained(tmp_path, profile, "-c", code)
    assert done.stdout.split() == ["-1", "38"], done.stderr


def test_a_filter_that_refuses_the_sampler_takes_no_more_than_that(
    tmp_path: Path, profile: dict[str, Any], claims: Path
) -> None:
    """Without perf_event_open every switch is judged all the same, and it is said where nothing samples."""
    (rule,) = profile["syscalls"]
    names = [name for name in rule["names"] if name != "perf_event_open"]
    words = ("-m", "toolkit", "watch", "--claims", str(claims), "--duration", "1", "--output", str(tmp_path / "runs"))
    done = contained(tmp_path, profile | {"syscalls": [rule | {"names": names}]}, *words)
    found = list((tmp_path / "runs").glob("*/result.json"))
    assert found, done.stdout + done.stderr
    result = json.loads(found[0].read_text())
    assert result["coverage"]["switches_judged"] > 0
    assert any("carry no sampler" in text for text in result["coverage"]["blind_spots"])
    assert {"cpuset-containment", "passed"} <= {
        word for one in result["verdicts"] for word in (one["rule"], one["outcome"])
    }
    assert "no BPF" not in done.stderr
