"""The verbs as an ordinary user with a few capabilities: with all that a verb needs it works, and without each one the
message names it.

As user 65534 with ambient capabilities, which is what ``AmbientCapabilities=`` of a service gives.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integration.working_cgroup import directory, spinner, write_claim
from toolkit.host import cgroupfs

ORDINARY = 65534
PROJECT = Path(__file__).resolve().parents[2]
WATCH = ("bpf", "perfmon", "dac_override")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root"),
]


def called(caps: tuple[str, ...], *arguments: str | Path, user: int = ORDINARY) -> subprocess.CompletedProcess[str]:
    """Call a verb as this user, with these capabilities and no others."""
    only = ",".join(("-all", *(f"+{cap}" for cap in caps)))
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", f"--bounding-set={only}"]
    become += [f"--inh-caps={only}", f"--ambient-caps={only}"]
    done = subprocess.run(
        [*become, sys.executable, "-m", "toolkit", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=PROJECT,
        env=os.environ | {"HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that this user may write to: pytest's own is root's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture(scope="module")
def watch(place: Path) -> Iterator[tuple[str | Path, ...]]:
    """A watch of one second over a task that works."""
    with spinner(f"pinproof-capabilities-{os.getpid()}") as cgroup:
        claim = write_claim(place, "claims", cgroup, min(os.sched_getaffinity(0)))
        yield ("watch", "--claims", claim, "--duration", "1", "--output", place / "runs")


def test_watch_works_with_three_capabilities(watch: tuple[str | Path, ...], place: Path) -> None:
    """All that root would see: nothing is blind but what this kernel hides from root, too."""
    done = called(WATCH, *watch)
    result = json.loads(next((place / "runs").glob("*/result.json")).read_text())
    found = {one["rule"]: one["outcome"] for one in result["verdicts"]}
    assert found["cpuset-containment"] == "passed", done.stdout
    assert found["evidence-health"] == "passed", done.stdout + done.stderr
    assert not [spot for spot in result["coverage"]["blind_spots"] if "CAP_" in spot]
    assert not Path(f"/run/pinproof-{ORDINARY}").exists()


@pytest.mark.parametrize("lacking", WATCH)
def test_watch_names_the_capability_that_it_lacks(watch: tuple[str | Path, ...], lacking: str) -> None:
    """In one line, before anything is made: a gate wants the whole watch or none."""
    done = called(tuple(cap for cap in WATCH if cap != lacking), *watch, "--bpf", "require")
    assert (done.returncode, done.stdout) == (4, "")
    assert f"run it with sudo, or with CAP_{lacking.upper()}" in done.stderr
    assert done.stderr.count("\n") == 1


class Watched(NamedTuple):
    """How a watch ended, what it said meanwhile, and its verdicts by rule and subject."""

    code: int
    said: str
    verdicts: dict[tuple[str, str], dict[str, Any]]


@contextmanager
def quota_file(cgroup: str, quota_us: int) -> Iterator[None]:
    """Limit a cgroup that exists; where the cpu controller has a hierarchy of its own, one of the same name there."""
    hierarchy = cgroupfs.detect()
    mount = hierarchy.controller_dir("cpu")
    apart = mount != hierarchy.unified
    with ExitStack() as stack:
        place = mount / cgroup.lstrip("/")
        if apart:
            stack.enter_context(directory(place))
            (place / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            if not (place / "cpu.max").exists():
                (mount / "cgroup.subtree_control").write_text("+cpu")
                stack.callback((mount / "cgroup.subtree_control").write_text, "-cpu")
            (place / "cpu.max").write_text(f"{quota_us} 100000")
        yield


@pytest.fixture(scope="module")
def without_bpf(place: Path) -> Watched:
    """A watch without a capability, over one claim that is kept and one whose mask and quota file are wrong."""
    cpus = os.sched_getaffinity(0)
    names = [f"pinproof-unloaded-{which}-{os.getpid()}" for which in ("kept", "broken")]
    with spinner(names[0]) as kept, spinner(names[1]) as broken, quota_file(broken, 50_000):
        claims = place / "without.yaml"
        claims.write_text(
            "apiVersion: pinproof/v1\nkind: Claims\nclaims:\n"
            f'  - {{name: kept, cgroup: {kept}, cpus: "{min(cpus)}", isolation: host}}\n'
            f'  - {{name: broken, cgroup: {broken}, cpus: "{max(cpus)}", isolation: container, '
            "quota: {quotaUs: 20000, periodUs: 100000, burstUs: 0}}\n"
        )
        done = called((), "watch", "--claims", claims, "--duration", "1", "--output", place / "without")
    result = json.loads(next((place / "without").glob("*/result.json")).read_text())
    return Watched(done.returncode, done.stderr, {(one["rule"], one["subject"]): one for one in result["verdicts"]})


def test_without_bpf_a_watch_goes_on_and_says_so(without_bpf: Watched) -> None:
    """As an ordinary user without a capability: masks and control files are judged, and what is broken there fails."""
    code, said, verdicts = without_bpf
    assert code == 1
    first = said.splitlines()[0]
    assert "no BPF (" in first
    assert "with CAP_BPF" in first
    assert "what needs switches is undecided" in first
    assert {rule for (rule, subject), one in verdicts.items() if (subject, one["outcome"]) == ("broken", "failed")} >= {
        "affinity-mask",
        "applied",
    }
    assert "cpu.cfs_quota_us" in (reason := verdicts["applied", "broken"]["reason"]) or "more)" in reason
    quota = verdicts["quota-throttling", "broken"]
    assert (quota["outcome"], verdicts["affinity-mask", "kept"]["outcome"]) == ("failed", "passed")


def test_without_bpf_what_needs_switches_is_undecided(without_bpf: Watched) -> None:
    """By the one reason, also where the claim is kept: so that no exit code is ever 0."""
    for key in (
        ("cpuset-containment", "kept"),
        ("cpuset-containment", "broken"),
        ("exclusive-cpus", "broken"),
        ("evidence-health", "node"),
    ):
        verdict = without_bpf.verdicts[key]
        assert verdict["outcome"] == "undecided", key
        assert "and actions are not observed" in verdict["reason"]
        assert "CAP_BPF" in verdict["reason"]


def test_what_the_kernel_counts_by_itself_is_read_without_bpf(watch: tuple[str | Path, ...], place: Path) -> None:
    """Pressure stall information of the claim's cgroup, over the window; no wait is made up beside it."""
    done = called((), *watch[:-1], place / "off", "--bpf", "off")
    evidence = json.loads(next((place / "off").glob("*/evidence.json")).read_text())
    (row,) = evidence["pressure"]
    assert row.get("unread", "") == "", row
    assert row["window_ns"] == pytest.approx(evidence["duration_ns"], rel=0.2)
    assert (done.returncode, evidence["delays"]) == (3, [])


def test_conformance_names_the_capability_that_it_lacks() -> None:
    """It asks what a watch asks; the whole core of the catalogue was run with the same three."""
    done = called(("bpf", "perfmon"), "conformance", "--select", "quota-050-over")
    assert (done.returncode, done.stdout) == (4, "")
    assert "run it with sudo, or with CAP_DAC_OVERRIDE" in done.stderr


def test_user_0_without_them_is_refused_as_any_other(watch: tuple[str | Path, ...]) -> None:
    """What counts is what the process may do: a container's root may do little."""
    done = called(("perfmon", "dac_override"), *watch, "--bpf", "require", user=0)
    assert done.returncode == 4
    assert "CAP_BPF" in done.stderr


def test_a_container_runtime_is_root_s() -> None:
    """It makes namespaces and mounts: no list of ours suffices."""
    done = called(WATCH, "run", PROJECT / "validators/scenarios/quota-050-over.yaml", "--runtime", "runc")
    assert done.returncode == 4
    assert "--runtime runc needs root" in done.stderr


@pytest.fixture
def node(place: Path) -> Path:
    """A kubelet's node whose files are root's alone."""
    root = place / "node"
    state = root / "var/lib/kubelet"
    state.mkdir(parents=True)
    (state / "cpu_manager_state").write_text('{"policyName":"none","defaultCpuSet":"","checksum":1}')
    for folder in ("proc", "sys/fs/cgroup"):
        (root / folder).mkdir(parents=True)
    state.chmod(0o700)
    return root


def test_a_node_is_read_with_one_capability_and_not_without_it(node: Path, place: Path) -> None:
    """``capture`` and ``claims`` need what opens files of others."""
    assert called(("dac_override",), "claims", "--kubelet", "--root", node).returncode == 0
    assert called(("dac_override",), "capture", place / "one.tar.gz", "--root", node).returncode == 0
    done = called((), "capture", place / "two.tar.gz", "--root", node)
    assert done.returncode == 2
    assert "run it with sudo, or with CAP_DAC_OVERRIDE" in done.stderr
