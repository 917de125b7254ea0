"""The rule ``layers-agree``: which pair differs, for how long, and which layer is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import (
    SECOND,
    claim_db,
    claim_set,
    cpus,
    db_files,
    evidence,
    mask,
    use,
)
from toolkit.model.claims import Claim, SubjectKind
from toolkit.model.evidence import Evidence, Transition
from toolkit.model.layers import Layer, LayerView
from toolkit.model.verdict import Outcome, Verdict
from validators.layers_agree import RULE

LAYERS = (Layer.MODEL, Layer.CHECKPOINT, Layer.POD_RESOURCES)


def said(layer: Layer, text: str | None = "2-3", at_s: float = 0, mems: str | None = None) -> LayerView:
    return LayerView(
        claim="db",
        layer=layer,
        at_ns=int(at_s * SECOND),
        cpus=None if text is None else cpus(text),
        mems=None if mems is None else cpus(mems),
    )


def found(*layers: LayerView, **changes: object) -> Evidence:
    return replace(evidence(), layers=layers or tuple(said(layer) for layer in LAYERS), **changes)


def judged(value: Evidence, claim: Claim | None = None, period: float | None = None) -> Verdict:
    """The verdict before the loss rule."""
    return RULE.check(claim_set(claim or claim_db(), reconcile_period_s=period), value)[0]


def test_agreement() -> None:
    """All six layers say the same."""
    verdict = judged(found())

    assert verdict.outcome is Outcome.PASSED
    assert verdict.reason == "model, checkpoint, pod-resources, claim, cgroup, observed agree"
    assert verdict.measures["checkpoint_cpus"] == "2-3"


def test_layers_that_were_not_given_are_left_out() -> None:
    """A sandbox has claim, cgroup and observed; an API that is silent about shared CPUs does not differ."""
    assert judged(evidence()).reason == "claim, cgroup, observed agree"
    assert judged(found(said(Layer.POD_RESOURCES, None))).outcome is Outcome.PASSED


def test_nothing_promised_is_skipped() -> None:
    """A pause sandbox: only the cgroup and the scheduler speak."""
    assert judged(evidence(), claim_db(cpus=None, kind=SubjectKind.SANDBOX)).outcome is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("wrong", "pair"),
    [
        (Layer.MODEL, "model and checkpoint"),
        (Layer.CHECKPOINT, "model and checkpoint"),
        (Layer.POD_RESOURCES, "checkpoint and pod-resources"),
    ],
)
def test_the_pair_is_named(wrong: Layer, pair: str) -> None:
    """One layer that says 1-3 stands between two neighbours; the first pair is told."""
    verdict = judged(found(*(said(layer, "1-3" if layer is wrong else "2-3") for layer in LAYERS)))

    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason.startswith(f"{pair} differ: CPUs ")


def test_drift() -> None:
    """The negative control: the cgroup was written behind the kubelet's back."""
    files = (db_files(cpus_effective=cpus("0-3")),)
    verdict = judged(found(files_before=files, files_after=files))

    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason == "claim and cgroup differ: CPUs 2-3 against 0-3"


@pytest.mark.parametrize(
    "changes",
    [
        {"thread_masks": (mask("db", "1-3"),)},
        {"cpu_use": (use("db", 2), use("db", 1))},
    ],
)
def test_what_is_observed_must_fit_the_cgroup(changes: dict[str, object]) -> None:
    """A mask or a run outside what the cgroup allows; less than that is fine."""
    verdict = judged(found(**changes))

    assert verdict.outcome is Outcome.FAILED
    assert "cgroup and observed differ" in verdict.reason
    assert judged(found(thread_masks=(mask("db", "2"),), cpu_use=(use("db", 2),))).outcome is Outcome.PASSED


def test_memory_nodes() -> None:
    """The layers must agree on nodes, too."""
    claim = claim_db(mems=cpus("0"))

    assert judged(found(said(Layer.CHECKPOINT, mems="0")), claim).outcome is Outcome.PASSED
    verdict = judged(found(said(Layer.CHECKPOINT, mems="1")), claim)
    assert verdict.outcome is Outcome.FAILED
    assert "checkpoint and claim differ: memory nodes 1 against 0" in verdict.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"files_before": ()},
        {"files_after": ()},
        {"files_after": (db_files(cpus_effective=None),), "files_before": (db_files(cpus_effective=None),)},
        {"thread_masks": ()},
        {"cpu_use": ()},
    ],
)
def test_layers_that_were_not_read_are_undecided(changes: dict[str, object]) -> None:
    """Without the cgroup, masks or a run nothing passes."""
    assert judged(found(**changes)).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(("period", "outcome"), [(None, "failed"), (5.0, "failed"), (5.1, "undecided")])
def test_the_kubelet_has_two_periods(period: float | None, outcome: str) -> None:
    """A difference at both ends of ten seconds outlives two periods of five."""
    files = (db_files(cpus_effective=cpus("0-3")),)

    assert judged(found(files_before=files, files_after=files), period=period).outcome.value == outcome


def test_a_late_update_is_not_a_fault_yet() -> None:
    """A mask that was wide for six seconds and then followed is the reconcile window, one that stays is not."""
    masks = [mask("db", "1-3", last_at_ns=6 * SECOND), mask("db", "2-3", first_at_ns=6 * SECOND)]

    assert judged(found(thread_masks=tuple(masks)), period=4.0).outcome is Outcome.UNDECIDED
    assert judged(found(thread_masks=tuple(masks)), period=3.0).outcome is Outcome.FAILED
    assert judged(found(files_before=(db_files(cpus_effective=cpus("1-3")),)), period=4.0).outcome is Outcome.PASSED


def test_a_planned_change_blurs_a_difference() -> None:
    """Layers read around a change of the set may differ; what carries it out must follow in the end."""
    change = Transition(
        claim="db", what="cpus", start_at_ns=1, end_at_ns=2, cpus_before=cpus("1-3"), cpus_after=cpus("2-3")
    )
    value = found(said(Layer.CHECKPOINT, "1-3"), transitions=(change,))

    assert judged(value).outcome is Outcome.UNDECIDED

    masks = (mask("db", "1-3", last_at_ns=1), mask("db", "2-3", epoch=1))
    before = (db_files(cpus_effective=cpus("1-3")),)
    rows = (use("db", 1), use("db", 2))
    settled = found(transitions=(change,), thread_masks=masks, files_before=before, cpu_use=rows)
    assert judged(settled).outcome is Outcome.PASSED
    assert judged(replace(settled, thread_masks=masks[:1])).outcome is Outcome.UNDECIDED
