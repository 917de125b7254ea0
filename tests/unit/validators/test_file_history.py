"""Control files in between: a value that was changed and put back is dated and judged, a planned change is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import (
    SECOND,
    WINDOW_NS,
    bandwidth,
    claim_db,
    claim_set,
    claim_web,
    coverage,
    cpus,
    db_files,
    evidence,
    web_files,
)
from toolkit.model.claims import Claim
from toolkit.model.evidence import CgroupFiles, Evidence, Transition
from toolkit.model.layers import Layer, LayerView
from toolkit.model.verdict import Outcome, Verdict
from validators.intruders import possession
from validators.registry import judge


def verdict(claim: Claim, found: Evidence, rule: str, **node: object) -> Verdict:
    verdicts = judge(claim_set(claim, **node), found)
    return next(one for one in verdicts if one.rule == rule and one.subject == claim.name)


def during(*rows: CgroupFiles) -> Evidence:
    return evidence(files_during=rows, coverage=coverage(file_readings=9, file_gap_ns=SECOND))


def put_back(changed: CgroupFiles, sound: CgroupFiles) -> Evidence:
    """Changed at 2 s, put back at 8 s."""
    return during(replace(changed, at_ns=2 * SECOND), replace(sound, at_ns=8 * SECOND))


@pytest.mark.parametrize(
    ("claim", "changed", "sound", "named"),
    [
        (claim_db(), db_files(cpus=cpus("0-3"), cpus_effective=cpus("0-3")), db_files(), "cpuset.cpus was 0-3"),
        (claim_db(), db_files(cpus_effective=cpus("2")), db_files(), "cpuset.cpus.effective was 2"),
        (claim_db(mems=cpus("0")), db_files(mems=cpus("0-1")), db_files(), "cpuset.mems was 0-1"),
        (claim_web(), web_files(quota_us=100_000), web_files(), "the quota was 100 ms / 100 ms"),
        (claim_web(weight=100), web_files(weight=10), web_files(weight=100), "the weight was 10"),
    ],
    ids=("cpuset", "effective", "mems", "quota", "weight"),
)
def test_applied_dates_what_was_put_back(claim: Claim, changed: CgroupFiles, sound: CgroupFiles, named: str) -> None:
    """Both ends of the window are as promised; six seconds in between are not."""
    found = put_back(changed, sound)
    ends = {"files_before": (sound,), "files_after": (replace(sound, at_ns=WINDOW_NS),)}
    said = verdict(claim, replace(found, **ends), "applied")

    assert said.outcome is Outcome.FAILED
    assert named in said.reason
    assert "from 2.0 s to 8.0 s" in said.reason
    assert verdict(claim, replace(found, **ends, files_during=()), "applied").outcome is Outcome.PASSED


def test_a_quota_that_was_doubled_for_a_time_is_no_long_kernel_section() -> None:
    """The rule about usage names the changed quota, too."""
    said = verdict(claim_web(), put_back(web_files(quota_us=100_000), web_files()), "quota-throttling")

    assert said.outcome is Outcome.FAILED
    assert "had 100 ms / 100 ms as read from 2.0 s to 8.0 s, promised was 50 ms / 100 ms" in said.reason


def test_a_quota_given_and_taken_away_fails_quota_free() -> None:
    """An exclusive container had a quota for some seconds."""
    said = verdict(claim_db(), put_back(db_files(quota_us=50_000), db_files()), "quota-free")

    assert (said.outcome, "from 2.0 s to 8.0 s" in said.reason) == (Outcome.FAILED, True)


def test_layers_agree_names_the_pair_and_since_when() -> None:
    """With a kubelet too: a cgroup that was right and became wrong was not late."""
    found = put_back(db_files(cpus=cpus("0-3"), cpus_effective=cpus("0-3")), db_files())
    layers = (LayerView(claim="db", layer=Layer.CHECKPOINT, at_ns=0, cpus=cpus("2-3")),)
    said = verdict(claim_db(), replace(found, layers=layers), "layers-agree", reconcile_period_s=10.0)

    assert said.outcome is Outcome.FAILED
    assert said.reason == "claim and cgroup differed as read from 2.0 s to 8.0 s: CPUs 2-3 against 0-3"


def test_a_cgroup_that_was_late_has_the_kubelets_patience() -> None:
    """Wrong from the first reading on, right later: with a reconcile period that is no failure of layers-agree."""
    wrong = db_files(cpus=cpus("0-3"), cpus_effective=cpus("0-3"))
    late = replace(during(db_files(at_ns=4 * SECOND)), files_before=(wrong, web_files()))

    assert verdict(claim_db(), late, "layers-agree", reconcile_period_s=10.0).outcome is not Outcome.FAILED


def test_planned_changes_and_the_making_of_a_cgroup_are_no_deviation() -> None:
    """What the files say during a change, after it, and while a runtime sets a new cgroup up is explained."""
    change = Transition(
        claim="db",
        what="mask-change",
        start_at_ns=3 * SECOND,
        end_at_ns=5 * SECOND,
        cpus_before=cpus("1-3"),
        cpus_after=cpus("2-3"),
    )
    rows = (
        db_files(at_ns=4 * SECOND, cpus=cpus("1-2"), cpus_effective=cpus("1-2")),
        db_files(at_ns=6 * SECOND),
    )
    before = db_files(cpus=cpus("1-3"), cpus_effective=cpus("1-3"))
    planned = replace(during(*rows), transitions=(change,), files_before=(before, web_files()))
    made = Transition(claim="db", what="cgroup-made", start_at_ns=4 * SECOND, end_at_ns=4 * SECOND, cause="host")
    empty = db_files(at_ns=4 * SECOND + 1, cpus=cpus(""), cpus_effective=cpus("0-3"))
    remade = replace(during(empty, db_files(at_ns=5 * SECOND)), transitions=(made,))

    assert verdict(claim_db(), planned, "applied").outcome is Outcome.PASSED
    said = verdict(claim_db(), remade, "applied")
    assert said.outcome is Outcome.PASSED
    assert "its cgroup was made again at 4.000 s" in said.reason
    drift = replace(made, cause="toolkit", what="claim-added", end_at_ns=4 * SECOND)
    assert verdict(claim_db(), replace(remade, transitions=()), "applied").outcome is Outcome.FAILED
    assert verdict(claim_db(), replace(remade, transitions=(drift,)), "applied").outcome is Outcome.PASSED


def test_a_reader_that_was_stopped_is_a_doubt() -> None:
    """Five seconds without a reading: what was put back meanwhile was not seen, and nothing that rests on it passes."""
    found = evidence(coverage=coverage(file_readings=5, file_gap_ns=5 * SECOND))

    for rule in ("applied", "quota-free", "layers-agree"):
        said = verdict(claim_db(), found, rule)
        assert (said.outcome, "not read for 5.0 s" in said.reason) == (Outcome.UNDECIDED, True), rule
    assert verdict(claim_web(), found, "quota-throttling").outcome is Outcome.UNDECIDED
    assert verdict(claim_db(), found, "cpuset-containment").outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("gap_s", "unwatched_s", "outcome"),
    [
        (30, 0.3, Outcome.PASSED),
        (10, 3.5, Outcome.UNDECIDED),  # for so long it was not known what was written to
        (10, 0, Outcome.UNDECIDED),  # not measured
        (46, 0.3, Outcome.UNDECIDED),  # what is not written is read too seldom
        (3, 3, Outcome.PASSED),
    ],
)
def test_a_reader_that_hears_of_every_write_may_read_seldom(gap_s: float, unwatched_s: float, outcome: Outcome) -> None:
    """A node with hundreds of claims is read every half a minute, and what was written to at once."""
    found = evidence(
        coverage=coverage(
            file_readings=5, file_gap_ns=int(gap_s * SECOND), file_unwatched_ns=int(unwatched_s * SECOND)
        ),
    )
    said = verdict(claim_db(), found, "applied")
    assert said.outcome is outcome
    assert ("not read for" in said.reason) == (outcome is Outcome.UNDECIDED)


def test_deletion_and_making_are_told_and_are_no_change_that_must_hold() -> None:
    """The verdict about containment says both; transition-window has nothing to measure."""
    gone = Transition(claim="db", what="cgroup-gone", start_at_ns=3_100_000_000, end_at_ns=3_100_000_000, cause="host")
    made = replace(gone, what="cgroup-made", start_at_ns=3_105_000_000, end_at_ns=3_105_000_000)
    found = evidence(transitions=(gone, made))
    said = verdict(claim_db(), found, "cpuset-containment")

    assert said.outcome is Outcome.PASSED
    assert said.reason.endswith("; its cgroup was deleted at 3.100 s, made again at 3.105 s")
    (window,) = [one for one in judge(claim_set(), found) if one.rule == "transition-window"]
    assert window.outcome is Outcome.SKIPPED


def test_two_lives_may_use_one_pool_more() -> None:
    """A new cgroup starts with a full quota: what it allows is judged with the number of lives, and no further."""
    few = {"nr_periods": 99, "nr_throttled": 98, "quota_us": 50_000, "bpf_usage_ns": None}
    for used_ms, lives, outcome in ((5_060, 1, "failed"), (5_060, 3, "passed"), (5_600, 3, "failed")):
        row = bandwidth("web", "/kubepods/podb/web", usage_ns=used_ms * 1_000_000, lives=lives, **few)
        row = replace(row, bpf_usage_ns=row.usage_ns)
        others = tuple(one for one in evidence().bandwidth if one.claim != "web" or one.level > 0)
        said = verdict(claim_web(), evidence(bandwidth=(row, *others)), "quota-throttling")
        assert said.outcome.value == outcome, (used_ms, lives, said.reason)


def change(claim: str, before: str | None, after: str | None, start: int, end: int) -> Transition:
    return Transition(
        claim=claim,
        what="mask-change",
        start_at_ns=start,
        end_at_ns=end,
        cpus_before=None if before is None else cpus(before),
        cpus_after=None if after is None else cpus(after),
    )


def test_which_claim_had_a_cpu_when() -> None:
    """A CPU that was handed over was never both claims'; one that both had for a moment was."""
    web, db = claim_web(cpus=cpus("0")), claim_db(cpus=cpus("1"))
    shrink = change("web", "0-1", "0", 10, 20)

    assert possession.apart(db, web, 1, (shrink, change("db", None, "1", 20, 25)))
    assert not possession.apart(db, web, 1, (shrink, change("db", None, "1", 19, 25)))
    assert not possession.apart(db, web, 1, (change("db", None, "1", 30, 35),))  # never promised to web: not excused
    assert not possession.apart(db, web, 1, (change("web", "0-2", "0", 10, 20), change("web", "0-1", "0", 30, 40)))
