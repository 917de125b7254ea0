"""Many windows, one result: the worst of each, sums, and no growth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_set, evidence, use
from toolkit.model.blind_spots import BlindSpot, ScanGap, Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.result import Result, make_result
from toolkit.model.verdict import Measure, Outcome, Verdict, worst
from toolkit.report.table import render_table, render_window
from toolkit.session.windows.counters import KEPT_WINDOWS
from toolkit.session.windows.gone import GONE, MAX_FAILED
from toolkit.session.windows.sums import MAX_SPOTS, MAX_WORST, MORE_SPOTS, Sums
from toolkit.store import reread
from toolkit.timeline.ran import asked
from validators.registry import judge

COUNT = 4_000


def escaped(switches: int = 3) -> Evidence:
    """A window in which ``db`` ran outside."""
    row = replace(
        use("db", 0, switches=switches, run_ns=41_200, samples=0),
        out_of_set_switches=switches,
        out_of_set_ns=41_200,
        out_of_set_longest_ns=9_000 * switches,
    )
    return evidence(cpu_use=(*evidence().cpu_use, row))


def lossy(spot: str = "") -> Evidence:
    """A window in which an event was lost."""
    coverage = replace(evidence().coverage, lost_events=1)
    if spot:
        blind = BlindSpot(text=spot, witnesses=(Witness.SWITCHES,), start_at_ns=1, end_at_ns=2)
        coverage = replace(coverage, blindness=(blind,), blind_spots=(spot,))
    return replace(evidence(), coverage=coverage)


def summed(*windows: Evidence) -> Result:
    sums = Sums()
    for number, found in enumerate(windows, start=1):
        sums.add(number, make_result(found, judge(claim_set(), found), unknown=None), asked(found).rows)
    return reread(sums.result())


def verdict(result: Result, rule: str, subject: str) -> tuple[Outcome, str, dict[str, object]]:
    (found,) = [one for one in result.verdicts if (one.rule, one.subject) == (rule, subject)]
    return found.outcome, found.reason, dict(found.measures)


def test_the_worst_window_decides() -> None:
    """One window failed, one lost an event: each is counted as itself, the whole has failed and names the window."""
    total = summed(evidence(), lossy(), escaped(), evidence(), escaped(5))
    assert total.windows is not None
    assert total.outcome is Outcome.FAILED
    counts = total.windows
    assert (counts.count, counts.passed, counts.undecided, counts.failed, counts.skipped) == (5, 2, 1, 2, 0)
    assert [(one.number, one.outcome) for one in counts.worst] == [
        (3, Outcome.FAILED),
        (5, Outcome.FAILED),
        (2, Outcome.UNDECIDED),
    ]
    outcome, reason, measures = verdict(total, "cpuset-containment", "db")
    assert outcome is Outcome.FAILED
    assert reason.startswith("window 3 of 5 (")
    assert "and 1 more failed" in reason
    assert measures["windows_failed_count"] == 2
    assert measures["windows_undecided_count"] == 1
    assert measures["windows_count"] == 5


def test_sums() -> None:
    """Counts are summed, what bounds an error is the largest."""
    total = summed(evidence(), lossy(), escaped(3), escaped(5))
    one = evidence()
    assert total.duration_s == pytest.approx(4 * one.duration_ns / 1e9)
    assert total.coverage.switches_judged == 4 * one.coverage.switches_judged
    assert total.coverage.lost_events == 1
    assert total.windows is not None
    (db,) = [claim for claim in total.windows.claims if claim.claim == "db"]
    assert db.out_of_set_switches == 8
    assert db.out_of_set_ns == 2 * 41_200
    assert db.out_of_set_longest_ns == 45_000


def test_a_cpu_that_one_window_did_not_see_is_not_seen() -> None:
    """That the others saw it does not make up for it."""
    online = evidence().coverage.cpus_online
    unseen = CpuSet.of([online.first()])
    blind = replace(evidence(), coverage=replace(evidence().coverage, cpus_seen=online - unseen))
    total = summed(evidence(), blind, evidence())
    assert total.coverage.cpus_online - total.coverage.cpus_seen == unseen


def test_nothing_grows_with_the_number_of_windows() -> None:
    """Of hundreds of windows that each went wrong in words of their own no more is kept than of a few."""

    def size(windows: int) -> int:
        return len(repr(summed(*(lossy(f"trouble {number:06}") for number in range(windows)))))

    assert size(MAX_SPOTS * 4) < size(MAX_SPOTS * 2) * 1.05
    total = summed(*(lossy(f"trouble {number}") for number in range(MAX_SPOTS * 2)))
    assert total.windows is not None
    assert len(total.windows.worst) == MAX_WORST
    assert len(total.coverage.blindness) == MAX_SPOTS
    assert total.coverage.blindness[-1].text == MORE_SPOTS
    assert total.coverage.blind_spots[-1] == MORE_SPOTS


def test_renderings() -> None:
    """A window that passed is one line; one that did not has its verdicts below; the whole names the worst windows."""
    good = make_result(evidence(), judge(claim_set(), evidence()), unknown=None)
    bad = make_result(escaped(), judge(claim_set(), escaped()), unknown=None)
    assert "\n" not in render_window(7, good)
    assert "Window 7, " in render_window(7, good)
    text = render_window(8, bad)
    assert "cpuset-containment" in text
    assert "passed" not in text.split("\n", 1)[1]
    table = render_table(summed(evidence(), escaped()))
    assert "2 windows: 1 passed, 1 failed" in table
    assert "- window 2, " in table


def churned(count: int, failed: range = range(0)) -> tuple[Sums, Result]:
    """Watch ``db`` beside pods of which each lives for one window. :param failed: the pods that ran outside."""
    sums, base, bad = Sums(), evidence(), escaped()
    good, worse = (make_result(found, judge(claim_set(), found), unknown=None) for found in (base, bad))
    for number in range(count):
        found, result = (bad, worse) if number in failed else (base, good)
        pod = f"ns/pod-{number:06}"
        theirs = tuple(replace(one, subject=pod) for one in result.verdicts if one.subject == "db")
        coverage = replace(base.coverage, scan_gaps=(ScanGap(claim=pod, scans=2, longest_ns=5, at_ns=1, allowed_ns=9),))
        rows = tuple(replace(row, claim=pod) for row in found.cpu_use if row.claim == "db")
        result = replace(result, verdicts=(*good.verdicts, *theirs), coverage=coverage)
        sums.add(number + 1, result, asked(replace(base, cpu_use=(*base.cpu_use, *rows))).rows)
    return sums, reread(sums.result())


def test_nothing_grows_with_the_number_of_subjects() -> None:
    """Of 4,000 pods that came and went no more is kept than of 1,000; what failed is not forgotten."""
    few, many = churned(1_000), churned(COUNT)
    assert len(repr(many[1])) < len(repr(few[1])) * 1.02
    assert len(many[0]._named) == len(few[0]._named) < 40

    total = many[1]
    assert total.outcome is Outcome.PASSED
    outcome, reason, measures = verdict(total, "cpuset-containment", GONE)
    assert (outcome, measures["subjects_count"]) == (Outcome.PASSED, COUNT - KEPT_WINDOWS)
    assert f"{COUNT - KEPT_WINDOWS} that no window named any more, summed up: {COUNT - KEPT_WINDOWS} passed" in reason
    assert total.windows is not None
    (gone,) = [claim for claim in total.windows.claims if claim.claim == GONE]
    (db,) = [claim for claim in total.windows.claims if claim.claim == "db"]
    assert gone.switches * COUNT == db.switches * (COUNT - KEPT_WINDOWS)
    (gap,) = [gap for gap in total.coverage.scan_gaps if gap.claim == GONE]
    assert gap.scans == 2 * (COUNT - KEPT_WINDOWS)


def test_subjects_that_failed_are_kept_and_more_are_counted() -> None:
    """The first by their names, the others in the total, which has failed, too: so has the whole."""
    kept = [f"ns/pod-{number:06}" for number in range(MAX_FAILED + 50)]
    _, total = churned(len(kept) + 2 * KEPT_WINDOWS, range(len(kept)))
    failed = [one for one in total.verdicts if one.outcome is Outcome.FAILED and one.subject != GONE]
    assert len(failed) == MAX_FAILED
    assert {one.subject for one in failed} < set(kept)
    assert {one.rule for one in total.verdicts if one.outcome is Outcome.FAILED and one.subject == GONE} == {
        one.rule for one in failed
    }
    outcome, reason, measures = verdict(total, "cpuset-containment", GONE)
    assert outcome is Outcome.FAILED
    assert measures["windows_failed_count"] == len(kept) - len(
        [one for one in failed if one.rule == "cpuset-containment"]
    )
    assert "the first failed: ns/pod-" in reason
    assert total.outcome is worst(one.outcome for one in total.verdicts) is Outcome.FAILED


def test_one_that_comes_back_has_a_verdict_of_its_own_again() -> None:
    """What was said of it before stays in the total."""
    sums, _ = churned(KEPT_WINDOWS + 5)
    base = evidence()
    result = make_result(base, judge(claim_set(), base), unknown=None)
    again = tuple(replace(one, subject="ns/pod-000000") for one in result.verdicts if one.subject == "db")
    sums.add(KEPT_WINDOWS + 6, replace(result, verdicts=(*result.verdicts, *again)), asked(base).rows)
    measures = verdict(reread(sums.result()), "cpuset-containment", "ns/pod-000000")[2]
    assert measures["windows_count"] == 1
    assert verdict(reread(sums.result()), "cpuset-containment", GONE)[2]["subjects_count"] == 6


def test_what_passed_is_said_of_the_windows_that_it_is_true_of() -> None:
    """The same reason in each window is said of each; other reasons name their window; one window needs no words."""
    one = verdict(summed(evidence()), "cpuset-containment", "db")[1]
    assert "window" not in one

    outcome, reason, measures = verdict(summed(evidence(), evidence()), "cpuset-containment", "db")
    assert (outcome, reason) == (Outcome.PASSED, f"in each of 2 windows: {one}")
    assert measures["windows_cpus"] == "2-3"

    longer = replace(evidence(), cpu_use=tuple(replace(row, switches=row.switches + 1) for row in evidence().cpu_use))
    reason = verdict(summed(longer, evidence(), evidence()), "cpuset-containment", "db")[1]
    assert reason.startswith("window 1 of 3 (")
    assert "), and 2 more passed: none of " in reason


def test_what_one_window_did_not_measure_has_no_sum() -> None:
    """A sum of some windows would be taken for that of all; what passed in one window is not said of two."""
    sums = Sums()
    windows: tuple[dict[str, Measure], ...] = ({"cpus": "1", "nr_throttled": 3}, {"cpus": "1"})
    for number, measures in enumerate(windows, start=1):
        one = Verdict(rule="r", subject="s", outcome=Outcome.PASSED, reason="kept", measures=measures)
        other = replace(one, subject=f"only in {number}")
        sums.add(number, make_result(evidence(), (one, other), unknown=None), asked(evidence()).rows)
    found = {one.subject: one for one in sums.result().verdicts}
    assert "windows_nr_throttled" not in found["s"].measures
    assert found["s"].measures["windows_cpus"] == "1"
    assert found["only in 1"].reason == "in 1 of 2 windows: kept"
    assert found["only in 1"].measures["windows_nr_throttled"] == 3


ONE = Verdict(rule="r", subject="s", outcome=Outcome.PASSED, reason="kept", measures={})


def summed_measures(*windows: tuple[Outcome, dict[str, Measure]], rule: str = "r") -> dict[str, Measure]:
    sums = Sums()
    for number, (outcome, measures) in enumerate(windows, start=1):
        one = replace(ONE, rule=rule, outcome=outcome, measures=measures)
        sums.add(number, make_result(evidence(), (one,), unknown=None), asked(evidence()).rows)
    (found,) = reread(sums.result()).verdicts
    return {name: value for name, value in found.measures.items() if not name.endswith("ed_count")}


PASSED, FAILED = Outcome.PASSED, Outcome.FAILED


@pytest.mark.parametrize(
    ("rule", "first", "other", "expected"),
    [
        ("cpuset-containment", {"run_ns": 5}, {"run_ns": 6}, {"windows_run_ns": 16}),
        ("transition-window", {"longest_ms": 2.5}, {"longest_ms": 1.5}, {"windows_max_longest_ms": 2.5}),
        ("hugepages", {"2MB_used_bytes": 9}, {"2MB_used_bytes": 8}, {"windows_max_2MB_used_bytes": 9}),
        ("exclusive-cpus", {"policy": "k8s", "hosted": "a"}, {"policy": "k8s"}, {"windows_policy": "k8s"}),
        ("applied", {"writer_pid": 1}, {"writer_pid": 2}, {}),
        (
            "checkpoint",
            {"waiting_entries_count": 2},
            {"waiting_entries_count": 3},
            {"windows_max_waiting_entries_count": 3},
        ),
        ("device-numa", {"devices_count": 2}, {"devices_count": 2}, {"windows_max_devices_count": 2}),
        ("llc-alignment", {"groups_count": 1}, {"groups_count": 2}, {"windows_max_groups_count": 2}),
        (
            "quota-throttling",
            {"quota_us": 7, "demand_cpus": 1.0, "window_ns": 10},
            {"quota_us": 7, "demand_cpus": 2.0, "window_ns": 30},
            {"windows_quota_us": 7, "windows_max_demand_cpus": 2.0, "windows_window_ns": 50},
        ),
        ("no-such-rule", {"run_ns": 5, "same": 1}, {"run_ns": 6, "same": 1}, {"windows_same": 1}),
    ],
)
def test_each_measure_of_many_windows_is_one_of_all_of_them(
    rule: str, first: dict[str, Measure], other: dict[str, Measure], expected: dict[str, Measure]
) -> None:
    """Amounts are summed, of levels the largest is kept, what is the same everywhere is said, the rest is not."""
    found = summed_measures((PASSED, first), (PASSED, other), (PASSED, first), rule=rule)

    assert found == {"windows_count": 3, **expected}


def test_what_did_not_pass_has_the_measures_of_its_window_by_name() -> None:
    """A number of the window that failed beside a count of windows is not taken for one of all."""
    windows = ((PASSED, {"run_ns": 5}), (FAILED, {"run_ns": 6, "cpus": "1"}), (FAILED, {"run_ns": 7}))

    assert summed_measures(*windows) == {"windows_count": 3, "window": 2, "window_run_ns": 6, "window_cpus": "1"}
    assert summed_measures((FAILED, {"run_ns": 6})) == {"windows_count": 1, "run_ns": 6}


def test_every_measure_of_real_windows_is_named_so() -> None:
    """Of all rules: no measure of one window is left among those of many."""
    total = summed(evidence(), escaped(), lossy())
    named = {name for one in total.verdicts for name in one.measures}

    assert {name for name in named if not name.startswith(("windows_", "window_"))} <= {"window"}
    assert "window_out_of_set_ns" in named
    kept = verdict(summed(evidence(), evidence()), "exclusive-cpus", "db")[2]
    assert (kept["windows_kthread_ns"], kept["windows_policy"], "kthread_ns" in kept) == (0, "k8s", False)


def test_periods_that_drew_more_than_their_quota_add_up() -> None:
    """As those that were throttled do."""
    windows = ((PASSED, {"nr_bursts": 1, "burst_ns": 5}), (PASSED, {"nr_bursts": 2, "burst_ns": 7}))

    assert summed_measures(*windows, rule="quota-throttling") == {
        "windows_count": 2,
        "windows_nr_bursts": 3,
        "windows_burst_ns": 12,
    }
