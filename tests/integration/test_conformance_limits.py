"""Limits and resizes of the catalogue on the real kernel: kept in the honest run, broken on purpose, and noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.conformance_runs import run
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence, Runtime
from toolkit.model.layers import Layer
from toolkit.model.verdict import Outcome, Verdict
from toolkit.session.engine.prepared import Prepared
from toolkit.store import load_run
from validators.registry import judge

pytestmark = [pytest.mark.integration, pytest.mark.beside]


def on_hardware(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge as if this were no virtual machine: what was counted is real, whosever noise it is."""
    return judge(claims, replace(evidence, environment=replace(evidence.environment, virtualization="none")))


def test_no_exclusive_cpu_is_without_any_noise(tmp_path: Path, kept: Prepared) -> None:
    """Without a budget noise is measured; a budget of nothing fails about the exclusive CPU, with what took time.

    In a virtual machine the rule says nothing, so the control is skipped with its reason.
    """
    result = run("exclusive-and-shared", tmp_path, kept, only="noise")
    control = next(control for control in result.controls if control.rule == "noise")
    honest, broken = load_run(Path(result.run)), load_run(Path(control.run))
    own = honest.claims.exclusive_cpus
    subjects = {f"cpu {cpu}" for cpu in own}

    virtual = honest.evidence.environment.virtualization != "none"
    assert control.outcome is (Outcome.SKIPPED if virtual else Outcome.PASSED)
    found = {v.subject: v for v in on_hardware(broken.claims, broken.evidence) if v.rule == "noise"}
    assert set(found) == subjects
    assert {verdict.outcome for verdict in found.values()} == {Outcome.FAILED}
    kept = [v for v in on_hardware(honest.claims, honest.evidence) if v.rule == "noise"]
    assert Outcome.FAILED not in {verdict.outcome for verdict in kept}


def test_state_files_speak_as_a_layer(tmp_path: Path, kept: Prepared) -> None:
    """Model, state file, claim, cgroup and tasks agree; a torn file and a foreign writer differ in other pairs."""
    result = run("state-files", tmp_path, kept)

    layers = {view.layer for view in load_run(Path(result.run)).evidence.layers}
    assert layers == {Layer.MODEL, Layer.CHECKPOINT}
    told = {control.fault: control.reason for control in result.controls if control.rule == "layers-agree"}
    assert told["torn-state"].startswith("model and checkpoint differ")
    assert told["widen-cpuset"].startswith("claim and cgroup differ")


def test_a_refused_resize_changes_nothing(tmp_path: Path, kept: Prepared) -> None:
    """The node says that it is infeasible, with the kubelet's words, and the pod keeps its CPU."""
    result = run("resize-refused", tmp_path, kept)

    saved = load_run(Path(result.run))
    answer = next(v for v in result.verdicts if v.subject == "db (resize)")
    assert answer.outcome is Outcome.PASSED
    assert saved.evidence.transitions == ()
    assert saved.evidence.coverage.window_skew_ns > 0
    assert saved.evidence.runtime == Runtime(name="cgroupfs")


def test_a_growing_container_gets_its_cpus_after_the_pool_has_left_them(tmp_path: Path, kept: Prepared) -> None:
    """KEP-5554: two changes, the pool's first; a container that ignores its resize is reported."""
    result = run("resize-grow", tmp_path, kept)

    changes = [change for change in load_run(Path(result.run)).evidence.transitions if change.what == "mask-change"]
    assert [change.claim for change in changes] == ["web/app", "db/main"]
    assert changes[0].end_at_ns <= changes[1].start_at_ns
    ignored = [control for control in result.controls if control.fault == "resize-ignored"]
    assert {control.outcome for control in ignored} <= {Outcome.PASSED, Outcome.UNDECIDED}
