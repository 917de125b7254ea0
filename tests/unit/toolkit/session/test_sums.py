"""Many windows, one result: the worst of each, sums, and no growth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_set, evidence, use
from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.result import Result, make_result
from toolkit.model.verdict import Outcome
from toolkit.report.table import render_table, render_window
from toolkit.session.sums import MAX_SPOTS, MAX_WORST, MORE_SPOTS, Sums
from toolkit.store import reread
from validators.registry import judge


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
        sums.add(number, make_result(found, judge(claim_set(), found)), found)
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
    """Of a thousand windows that each went wrong in words of their own no more is kept than of a few."""

    def size(windows: int) -> int:
        return len(repr(summed(*(lossy(f"trouble {number:06}") for number in range(windows)))))

    assert size(1000) < size(MAX_SPOTS * 2) * 1.05
    total = summed(*(lossy(f"trouble {number}") for number in range(300)))
    assert total.windows is not None
    assert len(total.windows.worst) == MAX_WORST
    assert len(total.coverage.blindness) == MAX_SPOTS
    assert total.coverage.blindness[-1].text == MORE_SPOTS
    assert total.coverage.blind_spots[-1] == MORE_SPOTS


def test_renderings() -> None:
    """A window that passed is one line; one that did not has its verdicts below; the whole names the worst windows."""
    good = make_result(evidence(), judge(claim_set(), evidence()))
    bad = make_result(escaped(), judge(claim_set(), escaped()))
    assert "\n" not in render_window(7, good)
    assert "Window 7, " in render_window(7, good)
    text = render_window(8, bad)
    assert "cpuset-containment" in text
    assert "passed" not in text.split("\n", 1)[1]
    table = render_table(summed(evidence(), escaped()))
    assert "2 windows: 1 passed, 1 failed" in table
    assert "- window 2, " in table
