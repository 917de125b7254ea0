"""Scenarios that take several steps, on the real kernel: init containers, departures, restarts, bursts, other nodes.

On a machine that others use a verdict may be undecided; what must never happen is a false alarm, or a broken promise
that the rule says nothing about.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conformance_runs import run
from toolkit.model.claims import Claim
from toolkit.model.verdict import Outcome
from toolkit.session.engine.prepared import Prepared
from toolkit.store import StoredRun, load_run

pytestmark = [pytest.mark.integration, pytest.mark.beside]


def containers(stage: StoredRun) -> list[Claim]:
    """Return the claims about containers: those about pods and QoS classes carry no CPUs."""
    return [claim for claim in stage.claims.claims if claim.kind.carries_tasks]


def test_init_container_runs_first_on_the_same_cpu(tmp_path: Path, kept: Prepared) -> None:
    """The init container is judged in a stage of its own, before its pod's app container has the same CPU."""
    result = run("init-reuse", tmp_path, kept)

    first, last = load_run(Path(result.run) / "init-1"), load_run(Path(result.run))
    cpus = {claim.name: claim.cpus for stage in (first, last) for claim in containers(stage)}
    assert cpus["db/setup"] == cpus["db/main"]
    assert {claim.name for claim in containers(first)} == {"db/setup", "web/app"}
    assert {claim.name for claim in containers(last)} == {"db/main", "web/app"}
    ran = {row.claim for row in first.evidence.cpu_use if row.run_ns > 0}
    assert "db/setup" in ran
    assert any(verdict.subject == "db/setup (init 1)" for verdict in result.verdicts)


def test_cpus_of_a_pod_that_left_go_to_the_next(tmp_path: Path, kept: Prepared) -> None:
    """Two stages: the same CPU belongs to the first pod, then to the second."""
    result = run("pod-level-sequential", tmp_path, kept)

    first, last = load_run(Path(result.run) / "first"), load_run(Path(result.run))
    (before,), (after,) = containers(first), containers(last)
    assert (before.name, after.name) == ("first/main", "second/main")
    assert before.cpus is not None
    assert after.cpus is not None
    assert before.cpus <= after.cpus


def test_a_restart_under_observation_is_no_violation(tmp_path: Path, kept: Prepared) -> None:
    """The container's tasks die and come back while the window is open; both widened containers are noticed.

    It is a transition that is held to a limit; no machine restarts anything in no time.
    """
    result = run("restart", tmp_path, kept)

    evidence = load_run(Path(result.run)).evidence
    pids = {mask.pid for mask in evidence.thread_masks if mask.claim == "db/main"}
    assert len(pids) > 2
    assert [(change.claim, change.what) for change in evidence.transitions] == [("db/main", "restart")]
    verdict = next(v for v in result.verdicts if v.rule == "transition-window")
    assert verdict.outcome is Outcome.PASSED
    assert verdict.measures["limit_ms"] == 60_000
    tight = next(c for c in result.controls if c.fault == "tight-limit")
    assert tight.outcome is Outcome.PASSED
    assert "the limit is 0 ms" in tight.reason


def test_an_emptied_pool_is_noticed_by_plan_and_switches(tmp_path: Path, kept: Prepared) -> None:
    """Once exclusive containers own all but the reserved CPUs, the shared container's escape is told three times."""
    result = run("empty-pool", tmp_path, kept)

    caught = {control.rule for control in result.controls if control.outcome is Outcome.PASSED}
    assert {"admission", "reserved-cpus", "exclusive-cpus"} == caught
