"""The regression gate: what is worse, what is better, and what can no longer be seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.toolkit.fleet.compared import compare
from tests.unit.toolkit.report.results_builder import healthy, result_of
from tests.unit.validators.evidence_builder import claim_set, cpus
from toolkit.fleet.comparison import MAX_PROMISES
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome
from toolkit.report.comparison_table import render_comparison


def changed(result: Result, rule: str, outcome: Outcome) -> Result:
    verdicts = tuple(replace(v, outcome=outcome) if v.rule == rule else v for v in result.verdicts)
    return replace(result, verdicts=verdicts)


PASS, FAIL, UNDECIDED, SKIP = Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED, Outcome.SKIPPED


@pytest.mark.parametrize(
    ("old", "new", "list_name"),
    [
        (PASS, FAIL, "regressions"),
        (PASS, UNDECIDED, "regressions"),
        (PASS, SKIP, "regressions"),
        (UNDECIDED, FAIL, "regressions"),
        (SKIP, FAIL, "regressions"),
        (SKIP, UNDECIDED, "regressions"),
        (FAIL, PASS, "improvements"),
        (FAIL, UNDECIDED, "improvements"),
        (UNDECIDED, PASS, "improvements"),
        (SKIP, PASS, "improvements"),
        (FAIL, SKIP, "regressions"),
        (UNDECIDED, SKIP, "other_changes"),
        (FAIL, FAIL, None),
        (PASS, PASS, None),
    ],
)
def test_gate(old: Outcome, new: Outcome, list_name: str | None) -> None:
    """Worse verdicts regress, better ones are listed, what failed before and after is known."""
    result = result_of(healthy())
    found = compare(changed(result, "evidence-health", old), changed(result, "evidence-health", new))

    assert found.regressed == (list_name == "regressions")
    for name in ("regressions", "improvements", "other_changes"):
        assert len(getattr(found, name)) == (1 if name == list_name else 0)
    assert found.new_blind_spots == ()


def test_gate_on_new_and_vanished_verdicts() -> None:
    """A verdict that passed and is gone regresses; a new one regresses only if it is not good."""
    full = result_of(healthy())
    less = replace(full, verdicts=full.verdicts[1:])

    assert compare(full, less).regressions[0].after == "gone"
    assert not compare(less, full).regressed
    assert compare(less, changed(full, full.verdicts[0].rule, FAIL)).regressed


@pytest.mark.parametrize(
    "worse",
    [
        {"blind_spots": ("something new",)},
        {"lost_events": 1},
        {"map_full": 1},
        {"missed_runs": 1},
        {"cpus_seen": cpus("0-2")},
        {"cpus_unsampled": cpus("3")},
        {"proc_scans": 0},
        {"positive_control_latency_ms": None},
    ],
    ids=str,
)
def test_gate_on_blind_spots(worse: dict[str, Any]) -> None:
    """What can no longer be seen regresses although every verdict is the same."""
    base = result_of(healthy())
    new = replace(base, coverage=replace(base.coverage, **worse))

    assert compare(base, new).regressed
    assert len(compare(base, new).new_blind_spots) == 1
    assert not compare(new, new).regressed
    assert not compare(new, base).regressed


def test_a_blind_spot_about_other_tasks_is_known() -> None:
    """Which tasks a kernel hides, and how many, is of the moment; that one of them may be a pod's is not."""
    hidden = "this kernel hides threads from its tracepoints: {}{}; at most 10 ms is missing ({} switches)"
    harmless = " (no watched CPU is theirs)"
    base, fewer, worse = (
        replace(result_of(healthy()), coverage=replace(healthy().coverage, blind_spots=(hidden.format(*words),)))
        for words in (
            ("tokio-rt-worker (69), vsock console (7) and 3 more", harmless, 11),
            ("kvm-nx (9)", harmless, 3),
            ("kvm-nx (9)", "", 3),
        )
    )

    assert not compare(base, fewer).regressed
    assert not compare(fewer, base).regressed
    assert len(compare(base, worse).new_blind_spots) == 1


def test_a_comparison_is_for_people() -> None:
    """What one run does not know is said in words; a subject is not torn apart while there is room."""
    base = result_of(healthy())
    base = replace(base, environment=replace(base.environment, idle_exit_us=1, topology={"sockets": 1}))
    lost = replace(base.verdicts[0], subject="besteffort/(qos)")
    base = replace(base, verdicts=(*base.verdicts, lost))
    new = replace(
        base, environment=replace(base.environment, idle_exit_us=None, topology={}), verdicts=base.verdicts[:-1]
    )
    text = render_comparison(compare(base, new))

    rows = [line.split("  ") for line in text.splitlines()]
    assert any(row[0] == "idle_exit_us" and row[-1].strip() == "not known" for row in rows)
    assert next(line.split() for line in text.splitlines() if line.startswith("topology")) == ["topology", "differs"]
    assert "besteffort/(qos)" in text


def test_environment_differences_are_told() -> None:
    """Another kernel or topology is named, and does not regress by itself."""
    base = result_of(healthy())
    new = replace(base, environment=replace(base.environment, kernel="6.19", topology={"sockets": 2}))
    found = compare(base, new)

    assert [change.name for change in found.environment] == ["kernel", "topology"]
    assert not found.regressed


def test_what_was_promised_otherwise_is_told() -> None:
    """A verdict that passes because less is promised is no news about the machine; a pod's new CPUs are normal."""
    base = result_of(healthy())
    old = claim_set()
    first = old.claims[0]
    looser = replace(old, claims=(replace(first, cpus=cpus("0-7"), quota_us=None), *old.claims[1:]))
    found = compare(base, base, promises=(old, replace(looser, reserved_cpus=cpus("7"))))

    assert not found.regressed
    rows = {(change.name, change.before, change.after) for change in found.environment}
    assert (f"{first.name}: cpus", str(first.cpus), "0-7") in rows
    assert ("reserved cpus", str(old.reserved_cpus), "7") in rows
    assert len(rows) == 2 + (first.quota_us is not None)
    assert f"{first.name}: cpus" in render_comparison(found)
    assert compare(base, base, promises=(old, old)).environment == ()
    assert compare(base, base, promises=(old, None)).environment == ()


def test_many_promises_that_differ_are_counted() -> None:
    """A rollout gives every pod other CPUs."""
    base = result_of(healthy())
    claim = claim_set().claims[0]
    old, new = (
        replace(claim_set(), claims=tuple(replace(claim, name=f"c{i}", cpus=cpus(own)) for i in range(30)))
        for own in ("1", "2")
    )
    rows = compare(base, base, promises=(old, new)).environment
    assert len(rows) == MAX_PROMISES
    assert (rows[-1].name, rows[-1].before) == ("more promises", "21")
