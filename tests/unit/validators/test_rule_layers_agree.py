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
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, HotplugEvent, Transition
from toolkit.model.layers import Layer, LayerView
from toolkit.model.verdict import Outcome, Verdict
from validators.rules.layers_agree import RULE

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


@pytest.mark.parametrize(
    ("changed_at_s", "wrong", "outcome"),
    [
        (1, {"cpus_effective": cpus("0-3")}, "failed"),
        (9, {"cpus_effective": cpus("2")}, "passed"),
        (9, {"mems_effective": cpus("1")}, "failed"),
        (9, {"cpus_effective": cpus("2"), "mems_effective": cpus("1")}, "failed"),
    ],
    ids=["before the CPU went", "when it went", "memory nodes", "memory nodes when it went"],
)
def test_a_cpu_that_went_explains_nothing_before_it(changed_at_s: int, wrong: dict[str, CpuSet], outcome: str) -> None:
    """A cpuset that was widened at 1 s and put back is drift, whatever goes offline at 9 s; so are memory nodes."""
    rows = (replace(db_files(), at_ns=changed_at_s * SECOND, **wrong), db_files(at_ns=changed_at_s * SECOND + 1))
    gone = HotplugEvent(cpu=3, online=False, at_ns=9 * SECOND)
    value = found(files_during=rows, hotplug=(gone,))

    assert judged(value, claim_db(mems=cpus("0"))).outcome.value == outcome


def test_a_cgroup_without_a_cpu_that_went_is_undecided() -> None:
    """The kernel grants what is online: no wrong write, as far as the layers know."""
    after = (db_files(cpus_effective=cpus("2")),)
    gone = HotplugEvent(cpu=3, online=False, at_ns=9 * SECOND)

    assert judged(found(files_after=after, hotplug=(gone,))).outcome is Outcome.UNDECIDED
    assert judged(found(files_after=after)).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("gone", "first_at_s", "outcome"),
    [("2-3", 9, "undecided"), ("3", 9, "failed"), ("2-3", 1, "failed")],
    ids=["no CPU is left", "one is left", "before they went"],
)
def test_a_mask_that_the_kernel_lent_is_undecided(gone: str, first_at_s: int, outcome: str) -> None:
    """Threads whose CPUs all went may run anywhere; the kernel's word, and no drift."""
    events = tuple(HotplugEvent(cpu=cpu, online=False, at_ns=8 * SECOND) for cpu in cpus(gone))
    wide = replace(mask("db", "0-7"), first_at_ns=first_at_s * SECOND, last_at_ns=10 * SECOND)
    value = found(thread_masks=(mask("db", "2-3"), wide), hotplug=events)

    assert judged(value).outcome.value == outcome


def test_layers_read_after_a_change_must_agree() -> None:
    """A change that was complete before both were read last is no excuse for them."""
    change = Transition(
        claim="db", what="cpus", start_at_ns=1, end_at_ns=SECOND, cpus_before=cpus("1-3"), cpus_after=cpus("2-3")
    )
    early, late = (found(said(Layer.CHECKPOINT, "1-3", at_s=at_s), transitions=(change,)) for at_s in (0.5, 1.5))

    assert judged(early).outcome is Outcome.UNDECIDED
    assert judged(late).outcome is Outcome.FAILED


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
