"""The rules ``affinity-mask`` and ``applied``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validators.evidence_builder import (
    SECOND,
    WINDOW_NS,
    claim_db,
    claim_set,
    claim_web,
    coverage,
    cpus,
    db_files,
    evidence,
    mask,
    web_files,
)
from toolkit.model.cgroup_manager import CgroupManager
from toolkit.model.claims import Claim
from toolkit.model.cpu_units import weights_of_shares
from toolkit.model.evidence import CgroupFiles, Evidence, HotplugEvent, Transition
from toolkit.model.verdict import Outcome, Verdict
from validators.rules import affinity_mask, applied

CHANGE = Transition(
    claim="db", what="cpus", start_at_ns=1, end_at_ns=2, cpus_before=cpus("1-3"), cpus_after=cpus("2-3")
)


def masks(*found: Any, **changes: Any) -> Verdict:
    return affinity_mask.RULE(claim_set(claim_db()), evidence(thread_masks=found, **changes))[0]


@pytest.mark.parametrize(
    ("allowed", "outcome"),
    [("2-3", "passed"), ("2", "passed"), ("2-4", "failed"), ("0-3", "failed"), ("0", "failed")],
)
def test_masks_must_lie_within(allowed: str, outcome: str) -> None:
    """A mask equal to or narrower than the set passes; one CPU too many fails (the negative control)."""
    assert masks(mask("db", "2-3", tid=1), mask("db", allowed)).outcome.value == outcome


def test_narrow_masks_are_reported_apart() -> None:
    """A thread narrowed by its owner is a measure."""
    verdict = masks(mask("db", "2-3"), mask("db", "3", tid=101))

    assert verdict.outcome is Outcome.PASSED
    assert verdict.measures["narrowed_threads_count"] == 1


def test_a_wide_thread_is_named() -> None:
    """The offender is the thread, and the CPU is one that it must not have."""
    verdict = masks(mask("db", "2-3"), mask("db", "0-3", tid=101, comm="rogue"))

    assert (verdict.offenders[0].tid, verdict.offenders[0].comm, verdict.offenders[0].cpu) == (101, "rogue", 0)


def test_masks_are_compared_with_the_set_of_their_epoch() -> None:
    """A mask read before a planned change may have the old set, one read after it may not."""
    assert masks(mask("db", "1-3", epoch=0), transitions=(CHANGE,)).outcome is Outcome.PASSED
    assert masks(mask("db", "1-3", epoch=1), transitions=(CHANGE,)).outcome is Outcome.FAILED


def test_between_two_changes_the_set_of_the_first_holds() -> None:
    """Each epoch has its own set; the last change says nothing of masks that were read before it."""
    first = Transition(
        claim="db", what="cpus", start_at_ns=0, end_at_ns=0, cpus_before=cpus("0-3"), cpus_after=cpus("1-3")
    )
    for allowed, epoch, outcome in (
        ("0-3", 0, "passed"),
        ("1-3", 1, "passed"),
        ("0-3", 1, "failed"),
        ("1-3", 2, "failed"),
    ):
        assert masks(mask("db", allowed, epoch=epoch), transitions=(first, CHANGE)).outcome.value == outcome


def test_the_making_of_a_claim_is_no_change_of_its_set() -> None:
    """A claim that was added while we watched starts at epoch 0 with its own set."""
    made = Transition(claim="db", what="claim-added", start_at_ns=0, end_at_ns=1, cpus_after=cpus("1-3"))

    assert masks(mask("db", "1-3", epoch=0), transitions=(made, CHANGE)).outcome is Outcome.PASSED
    assert masks(mask("db", "1-3", epoch=1), transitions=(made, CHANGE)).outcome is Outcome.FAILED


def test_no_threads_read_is_undecided() -> None:
    """No mask, or no scan, is no evidence."""
    assert masks().outcome is Outcome.UNDECIDED
    assert masks(mask("db", "2-3"), coverage=coverage(proc_scans=0)).outcome is Outcome.UNDECIDED


def test_loss_of_bpf_events_does_not_matter_to_masks() -> None:
    """What /proc said does not become doubtful because a ring buffer was full."""
    assert masks(mask("db", "2-3"), coverage=coverage(lost_events=1)).outcome is Outcome.PASSED


def files(claim: Claim, *, before: CgroupFiles | None, after: CgroupFiles | None, **changes: Any) -> Verdict:
    found: Evidence = evidence(
        files_before=() if before is None else (before,), files_after=() if after is None else (after,), **changes
    )
    return applied.RULE(claim_set(claim), found)[0]


def both(claim: Claim, read: CgroupFiles) -> Verdict:
    return files(claim, before=read, after=read)


def test_files_as_promised() -> None:
    """Everything promised reads back, before and after."""
    verdict = both(claim_db(mems=cpus("0")), db_files())

    assert verdict.outcome is Outcome.PASSED
    assert verdict.measures["files_compared_count"] == 10


@pytest.mark.parametrize(
    ("promised", "cut"),
    [("2-11", "2-7"), ("60-67", "60-63"), ("0,64,128", "0,64"), ("250-300", "250-255")],
)
def test_masks_that_lost_high_cpus_fail(promised: str, cut: str) -> None:
    """F11: a mask that is cut at 8, 64, 128 or 256 CPUs on its way to the kernel; whole it passes."""
    claim = claim_db(cpus=cpus(promised))
    whole = db_files(cpus=cpus(promised), cpus_effective=cpus(promised))
    found = db_files(cpus=cpus(cut), cpus_effective=cpus(cut))

    assert both(claim, whole).outcome is Outcome.PASSED
    assert both(claim, found).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    "wrong",
    [
        {"cpus": cpus("2")},
        {"cpus_effective": cpus("0-3")},
        {"cpus": cpus("")},
        {"mems": cpus("0-1")},
        {"mems_effective": cpus("1")},
        {"quota_us": 50_000},
    ],
)
def test_any_other_value_fails(wrong: dict[str, Any]) -> None:
    """The negative control: one value that another hand wrote, before or after, fails."""
    claim = claim_db(mems=cpus("0"))
    if wrong == {"cpus": cpus("")}:
        wrong = {"cpus": cpus(""), "cpus_effective": cpus("0-3")}

    assert files(claim, before=db_files(), after=db_files(**wrong)).outcome is Outcome.FAILED
    assert files(claim, before=db_files(**wrong), after=db_files()).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("quota", "period", "outcome"),
    [
        (50_000, 100_000, "passed"),
        (50_001, 100_000, "failed"),
        (100_000, 100_000, "failed"),
        (25_000, 100_000, "failed"),
        (-1, 100_000, "failed"),
        (25_000, 50_000, "failed"),
    ],
)
def test_quota_files(quota: int, period: int, outcome: str) -> None:
    """Twice, half, none, another period: each fails even where the rate is the same."""
    assert both(claim_web(), web_files(quota_us=quota, period_us=period)).outcome.value == outcome


SLICE, SCOPE = "/kubepods.slice/kubepods-podb.slice", "/kubepods.slice/kubepods-podb.slice/cri-containerd-1.scope"


@pytest.mark.parametrize(
    ("cgroup", "manager", "found", "outcome"),
    [
        (SCOPE, "systemd", 13_000, "passed"),
        (SLICE, "systemd", 13_000, "passed"),
        (SCOPE, "systemd", 14_000, "failed"),
        # Of a run that did not read what wrote it the name tells.
        (SCOPE, "unknown", 13_000, "passed"),
        ("/kubepods/podb/web", "unknown", 13_000, "failed"),
        # Nothing else rounds, whatever the name.
        ("/kubepods/podb/web", "cgroupfs", 13_000, "failed"),
        (SCOPE, "cgroupfs", 13_000, "failed"),
    ],
)
def test_systemd_rounds_quota_up_to_a_percent(cgroup: str, manager: str, found: int, outcome: str) -> None:
    """125m may read back as 13000 where systemd wrote it, reported as a measure; nothing further up, nor elsewhere."""
    read = web_files(cgroup=cgroup, manager=CgroupManager(manager), quota_us=found)
    verdict = both(claim_web(cgroup=cgroup, quota_us=12_500), read)

    assert verdict.outcome.value == outcome
    assert verdict.measures.get("quota_rounded_us") == (found if outcome == "passed" else None)


def test_inherited_cpus_are_accepted_on_v2() -> None:
    """An empty cpuset.cpus that inherits exactly the promised CPUs is what was promised."""
    verdict = both(claim_db(), db_files(cpus=cpus("")))

    assert verdict.outcome is Outcome.PASSED
    assert verdict.measures["cpuset_cpus_inherited"] is True


def test_both_weight_formulas() -> None:
    """Shares may have become a weight by either formula; the measure names it."""
    assert weights_of_shares(1024) == {"linear": 39, "logarithmic": 100}
    for weight, formula in ((39, "linear"), (100, "logarithmic")):
        assert both(claim_db(shares=1024), db_files(weight=weight)).measures["weight_formula"] == formula
    assert both(claim_db(shares=1024), db_files(weight=101)).outcome is Outcome.FAILED
    assert both(claim_db(shares=1024), db_files(shares=1024)).outcome is Outcome.PASSED
    assert both(claim_db(weight=39), db_files(weight=40)).outcome is Outcome.FAILED


def test_unread_files_are_undecided() -> None:
    """A cgroup that vanished, or a file that does not exist, proves nothing."""
    assert files(claim_db(), before=db_files(), after=None).outcome is Outcome.UNDECIDED
    assert both(claim_db(), db_files(cpus_effective=None)).outcome is Outcome.UNDECIDED
    assert both(claim_db(weight=39), db_files(shares=1024)).outcome is Outcome.UNDECIDED


def test_nothing_promised_is_skipped() -> None:
    """A claim without any file's value is not judged."""
    assert both(claim_db(cpus=None, quota_us=None), db_files()).outcome is Outcome.SKIPPED


def test_a_planned_change_moves_the_promise() -> None:
    """Before the toolkit's change the old set is right, after it the new one; a stranger's change is drift."""
    old = db_files(cpus=cpus("1-3"), cpus_effective=cpus("1-3"))

    assert files(claim_db(), before=old, after=db_files(), transitions=(CHANGE,)).outcome is Outcome.PASSED
    assert files(claim_db(), before=old, after=old, transitions=(CHANGE,)).outcome is Outcome.FAILED
    assert files(claim_db(), before=old, after=db_files()).outcome is Outcome.FAILED


def test_offline_cpus_are_a_degradation() -> None:
    """A set that shrank because a CPU went offline is no wrong write."""
    short = db_files(cpus_effective=cpus("2"))
    event = HotplugEvent(cpu=3, online=False, at_ns=1)

    assert files(claim_db(), before=db_files(), after=short, hotplug=(event,)).outcome is Outcome.UNDECIDED
    assert files(claim_db(), before=db_files(), after=short).outcome is Outcome.FAILED


def gone(*told: tuple[int, int]) -> tuple[HotplugEvent, ...]:
    return tuple(HotplugEvent(cpu=cpu, online=False, at_ns=at_s * SECOND) for cpu, at_s in told)


@pytest.mark.parametrize(("first_at_s", "outcome"), [(1, "failed"), (9, "undecided")])
def test_a_wide_mask_before_the_cpus_went_offline_stays_one(first_at_s: int, outcome: str) -> None:
    """Only from when on all of them are gone may the kernel have lent the parent's CPUs."""
    wide = mask("db", "0-3", first_at_ns=first_at_s * SECOND)

    assert masks(wide, hotplug=gone((2, 5), (3, 9))).outcome.value == outcome


@pytest.mark.parametrize(
    ("readings", "outcome"),
    [
        ([(1, "0-3"), (5, "2-3"), (9, "2")], "failed"),
        ([(1, "0-3")], "failed"),
        ([(9, "2")], "undecided"),
    ],
    ids=["put back", "until the end", "by the hotplug"],
)
def test_a_write_before_a_cpu_went_offline_stays_one(readings: list[tuple[int, str]], outcome: str) -> None:
    """A widened cpuset at 1 s is not explained by a CPU that goes at 9 s."""
    rows = tuple(db_files(at_ns=at_s * SECOND, cpus_effective=cpus(found)) for at_s, found in readings)
    verdict = files(claim_db(), before=db_files(), after=rows[-1], files_during=rows, hotplug=gone((3, 9)))

    assert verdict.outcome.value == outcome
    assert ("was 0-3, promised 2-3" in verdict.reason) == (outcome == "failed")


def test_offline_cpus_do_not_explain_a_quota() -> None:
    """A reading in which both are wrong is not excused by the one that may be."""
    rows = (db_files(at_ns=9 * SECOND, cpus_effective=cpus("2"), quota_us=5_000),)
    back = db_files(at_ns=WINDOW_NS)
    found = files(
        claim_db(),
        before=db_files(),
        after=back,
        files_during=(*rows, db_files(at_ns=9 * SECOND + 1)),
        hotplug=gone((3, 9)),
    )

    assert found.outcome is Outcome.FAILED
