"""The same through the door: ``pinproof watch`` over tasks that are moved, that hop, that joined late, that never did.

What each did is timed elsewhere, against perf (test_membership_*.py, test_intruders_by_place.py); here it goes on all
the time, and what counts is what the program says, and its exit code.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.membership_lab import Mover, cpuset, home, procs
from tests.integration.probe_lab import cgroup, wait_for
from tests.json_lines import result_in
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
pytestmark = [pytest.mark.integration, pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs")]
WATCH_S = 1.5
DEADLINE_S = 180
"""For such a watch to end, on a machine however loaded."""
V1_CPUSETS = not cgroupfs.detect().is_v2("cpuset")
FOREVER = "ready times 1000000 {{ {} }}"


@dataclass(frozen=True)
class Said:
    """What a watch said."""

    code: int
    result: dict[str, Any]
    errors: str

    def verdict(self, rule: str, subject: str | None = None) -> dict[str, Any]:
        """Return what a rule said about a subject, or about the node."""
        found = [
            one
            for one in self.result["verdicts"]
            if one["rule"] == rule and (subject is None or one["subject"] == subject)
        ]
        assert len(found) == 1, found
        return dict(found[0])

    def outcome(self, rule: str, subject: str | None = None) -> str:
        """Return a rule's outcome about a subject, or the one about the node."""
        return str(self.verdict(rule, subject)["outcome"])


def claims(*rows: str, pods: str = "") -> str:
    head = f"apiVersion: pinproof/v1\nkind: Claims\n{f'podsRoot: {pods}' if pods else ''}\nclaims:\n"
    return head + "".join(f"  - {{{row}}}\n" for row in rows)


def watch(folder: Path, document: str, begin: Callable[[contextlib.ExitStack], None]) -> Said:
    """Let the loads begin, then watch; they go on until it has ended."""
    (folder / "claims.yaml").write_text(document)
    command = [sys.executable, "-m", "toolkit", "watch", "--claims", str(folder / "claims.yaml"), "--json"]
    with contextlib.ExitStack() as loads:
        begin(loads)
        done = subprocess.run(
            [*command, "--duration", str(WATCH_S), "--output", str(folder / "runs")],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
    assert done.stdout.startswith("{"), done.stderr
    return Said(done.returncode, result_in(done.stdout), done.stderr)


def load(loads: contextlib.ExitStack, mover: Path, script: str) -> Mover:
    """Start a script that is repeated."""
    run = loads.enter_context(Mover(mover, FOREVER.format(script)))
    run.go()
    return run


def resident(loads: contextlib.ExitStack, mover: Path, path: str, cpuset_file: Path | None = None) -> None:
    """Start a task that belongs to a claim and keeps to it."""
    joined = f"put {cpuset_file} 0 " if cpuset_file else ""
    run = loads.enter_context(
        Mover(mover, f"pin {IN} {joined}put {procs(path)} 0 {FOREVER.format('burn 200 nap 5000')}")
    )
    run.go()


@pytest.fixture(scope="module")
def broken(mover: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Said]:
    """A watch over four claims, each of which is broken in its own way."""
    names = ("moved", "hops", "ring", "never")
    with contextlib.ExitStack() as places:
        paths = {name: f"/pinproof-watch-{name}-{os.getpid()}" for name in names}
        if V1_CPUSETS:
            places.enter_context(cpuset(paths["never"], CpuSet.of([IN])))
        for path in paths.values():
            places.enter_context(cgroup(path[1:]))
        back = home(os.getpid())

        def begin(loads: contextlib.ExitStack) -> None:
            for path in paths.values():
                resident(loads, mover, path)
            spinner = loads.enter_context(Mover(mover, f"pin {OUT} ready forever"))
            spinner.go()
            pid = spinner.process.pid
            load(loads, mover, f"put {procs(paths['moved'])} {pid} nap 2000 put {back} {pid} nap 20000")
            load(loads, mover, f"pin {OUT} put {procs(paths['hops'])} 0 burn 500 put {back} 0 burn 500 nap 5000")
            inside = procs(paths["ring"])
            again = f"nap 100000 put {back} 0 nap 100000 put {inside} 0 nap 1000"
            load(loads, mover, f"put {inside} 0 fork {{ pin {IN} workers {OUT} 1 {again} }}")
            load(loads, mover, f"fork {{ pin {OUT} put {procs(paths['never'])} 0 burn 2000 }} nap 20000")

        document = claims(*(f"name: {name}, cgroup: {path}, cpus: '{IN}'" for name, path in paths.items()))
        yield watch(tmp_path_factory.mktemp("broken"), document, begin)


@pytest.mark.beside
@pytest.mark.parametrize("claim", ["moved", "hops", "ring", "never"])
def test_a_broken_claim_has_failed(broken: Said, claim: str) -> None:
    """Moved in while spinning, entering and leaving, io_uring with leaving and returning, never joining the cpuset."""
    assert broken.outcome("cpuset-containment", claim) == "failed"
    verdict = broken.verdict("cpuset-containment", claim)
    assert {row["cpu"] for row in verdict["offenders"]} == {OUT}
    assert broken.code == 1
    measures = verdict["measures"]
    outside_ns = measures["out_of_set_ns"]
    # One whole stay at least: how many there are depends on what else wants the CPU.
    assert claim == "ring" or outside_ns >= 500_000
    # No joining forgives what was done before.
    assert measures.get("transition_ns", 0) <= 0.05 * outside_ns


@pytest.mark.beside
def test_broken_claims_are_no_contradiction(broken: Said) -> None:
    """What was measured is sound: it is the claims that failed, not the measurement."""
    health = [one for one in broken.result["verdicts"] if one["rule"] == "evidence-health"]
    assert [one["reason"] for one in health if one["outcome"] == "failed"] == []


@pytest.mark.skipif(not V1_CPUSETS, reason="a task joins once: cpusets are in the v2 hierarchy")
def test_joining_late_is_healthy(mover: Path, tmp_path: Path) -> None:
    """Tasks that join the identity 2 ms before the cpuset, all the time: containment has passed."""
    path = f"/pinproof-watch-late-{os.getpid()}"
    with cpuset(path, CpuSet.of([IN])) as file, cgroup(path[1:]):

        def begin(loads: contextlib.ExitStack) -> None:
            resident(loads, mover, path, file)
            joins = f"put {procs(path)} 0 burn 2000 put {file} 0 burn 1000 nap 100"
            late = load(loads, mover, f"fork {{ pin {OUT} {joins} }} nap 20000")
            # However busy the CPU is: 2 ms must not become more than the patience.
            os.setpriority(os.PRIO_PROCESS, late.process.pid, -20)

        said = watch(tmp_path, claims(f"name: late, cgroup: {path}, cpus: '{IN}'"), begin)
    assert said.outcome("cpuset-containment", "late") == "passed", said.verdict("cpuset-containment", "late")["reason"]
    assert said.code in (0, 3)
    assert "failed" not in {one["outcome"] for one in said.result["verdicts"]}


@pytest.mark.beside
@pytest.mark.parametrize("joins", ["a pod", "nothing"])
def test_starting_pod_on_an_exclusive_cpu(mover: Path, tmp_path: Path, joins: str) -> None:
    """A foreign pod's process runs on the exclusive CPU before it joins its pod, and hogs it afterwards."""
    with cgroup(f"pinproof-watch-pods-{os.getpid()}") as root:
        for name in ("db", "evil"):
            cgroupfs.identity_dir(cgroupfs.detect(), f"{root}/{name}").mkdir()

        def begin(loads: contextlib.ExitStack) -> None:
            resident(loads, mover, f"{root}/db")
            into = f"put {procs(f'{root}/evil')} 0" if joins == "a pod" else ""
            load(loads, mover, f"fork {{ pin {OUT} burn 5000 {into} name hog burn 40000 }}")

        one = f"name: db, cgroup: {root}/db, cpus: '{IN},{OUT}', isolation: container"
        said = watch(tmp_path, claims(one, pods=root), begin)
        wait_for(lambda: not procs(f"{root}/evil").read_text(), "the pod is empty")
    outcomes = {row["outcome"] for row in said.result["verdicts"] if row["rule"] == "exclusive-cpus"}
    if joins == "a pod":
        assert outcomes == {"failed"}
        assert said.code == 1
        (verdict,) = [row for row in said.result["verdicts"] if row["rule"] == "exclusive-cpus"]
        assert "hog" in {row["comm"] for row in verdict["offenders"]}
    else:
        assert "failed" not in outcomes
        assert said.code in (0, 3)
