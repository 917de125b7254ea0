"""Table, JSON, JUnit XML, the sentence, and the shipped schemas."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from tests.unit.validators.evidence_builder import (
    SECOND,
    claim_db,
    claim_set,
    claim_web,
    coverage,
    cpus,
    evidence,
    use,
)
from toolkit import store
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.result import Result, make_result
from toolkit.model.verdict import Offender, Outcome, Verdict
from toolkit.report import schemas
from toolkit.report.compare import compare
from toolkit.report.junit import render_junit
from toolkit.report.result import load_result_data
from toolkit.report.summary import summary
from toolkit.report.table import WIDTH, render_run, render_table
from validators.registry import judge

CLAIMS = claim_set(claim_db(), claim_web(cpus=cpus("1")), reserved_cpus=cpus("0"), strict_reservation=True)
EVIL = "\x1b[31mred\x00\r\n\u202e</failure>\ud800"


def healthy(**changes: Any) -> Evidence:
    rows = (use("db", 2), use("db", 3), use("web", 1, run_ns=5 * SECOND, samples=500))
    noise = Intruder(
        cpu=2,
        tid=30,
        comm="kworker/2:1",
        owner=OwnerClass.KTHREAD,
        cgroup="/",
        switches=30,
        total_ns=11_200_000,
        longest_ns=1_000_000,
        first_at_ns=5,
    )
    web = [replace(entry, cpus=cpus("1"), cpus_effective=cpus("1")) for entry in evidence().files_before[1:]]
    files = (evidence().files_before[0], *web)
    masks = tuple(
        replace(mask, cpus_allowed=cpus("1")) if mask.claim == "web" else mask for mask in evidence().thread_masks
    )
    values: dict[str, Any] = {
        "cpu_use": rows,
        "intruders": (noise,),
        "files_before": files,
        "files_after": files,
        "thread_masks": masks,
    }
    return replace(evidence(), **{**values, **changes})


def broken() -> Evidence:
    """An escape by a thread with a hostile name, and a blind spot."""
    row = use("db", 0, switches=3, run_ns=41_200, samples=0)
    row = replace(row, out_of_set_switches=3, out_of_set_ns=41_200, out_of_set_longest_ns=30_100)
    who = Offender(
        claim="db", tid=4711, comm=EVIL, cpu=0, first_at_ns=1_200_000, total_ns=41_200, longest_ns=30_100, switches=3
    )
    return healthy(
        cpu_use=(*healthy().cpu_use, row),
        offenders=(who,),
        coverage=coverage(lost_events=3, blind_spots=("CPUs 4-7 are nohz_full " + "and so on " * 20,)),
    )


def result_of(found: Evidence) -> Result:
    return make_result(found, judge(CLAIMS, found))


def test_the_sentence() -> None:
    """A healthy run says what no other tool can: how complete, who stayed where, what was throttled to what."""
    assert summary(result_of(healthy())) == (
        "For 10.0 s, 1,204,331 of the kernel's 1,204,331 context switches were judged, 0 were lost. "
        "No task of `db` ran outside CPUs 2-3, no task of `web` ran outside CPUs 1, "
        "no workload ran on reserved CPUs 0, "
        "exclusive CPUs 2-3 hosted only `db` and 11.2 ms of kernel threads. "
        "`web` was throttled to 0.500 CPUs (quota 50 ms / 100 ms; measured 0.4996). "
        "A planted escape was seen 2.1 ms after it began. Verdicts: 15 passed, 12 skipped."
    )


def test_the_sentence_never_says_more_than_passed() -> None:
    """What failed or is undecided is not told as a fact."""
    text = summary(result_of(broken()))

    assert "No task of" not in text
    assert "throttled to" not in text
    assert "3 failed" in text


def test_table_fits_and_is_harmless() -> None:
    """No line is wider than the limit; control characters of thread names never reach the terminal."""
    text = render_table(result_of(broken()))

    assert max(len(line) for line in text.splitlines()) <= WIDTH
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e\ud800]", text)
    assert "4711" in text
    assert text.splitlines()[2].startswith("failed ")
    assert "Not seen" in text


def test_table_with_long_names_fits() -> None:
    """Long claim names and reasons wrap instead of widening the table."""
    long = Verdict(
        rule="cpuset-containment",
        subject="pod-" + "x" * 80,
        outcome=Outcome.FAILED,
        reason="because " * 40,
        measures={},
    )
    text = render_table(make_result(healthy(), (long, replace(long, outcome=Outcome.SKIPPED))))

    assert max(len(line) for line in text.splitlines()) <= WIDTH
    assert render_run(CLAIMS, healthy(), ()).startswith("no verdicts")


def test_result_json_is_the_contract(tmp_path: Path) -> None:
    """The JSON has the fields of the design under their names, and is valid by the shipped schema."""
    store.save_run(tmp_path, claims=CLAIMS, evidence=healthy())
    store.save_result(tmp_path, judge(CLAIMS, healthy()), healthy())
    data = json.loads((tmp_path / "result.json").read_text())

    assert data == load_result_data(tmp_path)
    assert data["schema"] == "pinproof.result/1"
    assert {"outcome", "started_at", "duration_s", "verdicts", "coverage", "environment"} <= set(data)
    assert {"rule", "subject", "outcome", "reason", "measures", "offenders"} <= set(data["verdicts"][0])
    assert {"kernel", "cgroup", "cmdline", "topology"} <= set(data["environment"])
    assert {
        "switches_judged",
        "switches_kernel",
        "lost_events",
        "map_full",
        "cpus_seen",
        "positive_control_latency_ms",
        "blind_spots",
    } <= set(data["coverage"])
    assert data["coverage"]["cpus_seen"] == "0-3"


@pytest.mark.parametrize("name", schemas.NAMES)
def test_schemas_are_current(name: str) -> None:
    """The shipped schema is what the dataclasses give today (else: python -m toolkit.report.schemas)."""
    assert schemas.shipped(name) == json.loads(json.dumps(schemas.generate(name)))
    jsonschema.Draft202012Validator.check_schema(schemas.shipped(name))


def test_saved_files_are_valid_by_the_shipped_schemas(tmp_path: Path) -> None:
    """Claims, evidence, result and comparison validate; with a field of the wrong type they do not."""
    store.save_run(tmp_path, claims=CLAIMS, evidence=healthy())
    store.save_result(tmp_path, judge(CLAIMS, healthy()), healthy())
    for name in ("claims", "evidence", "result"):
        validator = jsonschema.Draft202012Validator(schemas.shipped(name))
        data = json.loads((tmp_path / f"{name}.json").read_text())
        validator.validate(data)
        assert not validator.is_valid({**data, "schema": "pinproof.other/1"})
        assert not validator.is_valid({**data, "surprise": 1})
        field = "claims" if name == "claims" else "started_at"
        assert not validator.is_valid({**data, field: 7})


def junit(found: Evidence) -> ElementTree.Element:
    return ElementTree.fromstring(render_junit(result_of(found)))


def test_junit_shape() -> None:
    """Counts agree with the cases; each case has at most one outcome child, of the right kind."""
    root = junit(broken())
    (suite,) = root
    cases = suite.findall("testcase")
    outcomes = [verdict.outcome for verdict in result_of(broken()).verdicts]
    kinds = {
        "failure": Outcome.FAILED,
        "error": Outcome.UNDECIDED,
        "skipped": Outcome.SKIPPED,
        "system-out": Outcome.PASSED,
    }

    assert root.tag == "testsuites"
    assert [child.tag for child in suite] == ["properties"] + ["testcase"] * len(cases)
    assert [kinds[case[0].tag] for case in cases] == outcomes
    assert all(len(case) == 1 and case.get("classname") and case.get("name") and case.get("time") for case in cases)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == tuple(
        str(n)
        for n in (
            len(outcomes),
            outcomes.count(Outcome.FAILED),
            outcomes.count(Outcome.UNDECIDED),
            outcomes.count(Outcome.SKIPPED),
        )
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp") or "")


def test_junit_survives_hostile_strings() -> None:
    """Control characters, lone surrogates and markup in names give valid XML that still names the thread."""
    text = render_junit(result_of(broken()))
    text.encode("utf-8")

    assert "4711" in text
    assert "\x1b" not in text
    assert "&lt;/failure&gt;" in text


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


def test_environment_differences_are_told() -> None:
    """Another kernel or topology is named, and does not regress by itself."""
    base = result_of(healthy())
    new = replace(base, environment=replace(base.environment, kernel="6.19", topology={"sockets": 2}))
    found = compare(base, new)

    assert [change.name for change in found.environment] == ["kernel", "topology"]
    assert not found.regressed
