"""The verbs that need no root: judge, report, compare, rules, explain, on recorded and hand-made run directories."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.saved_runs import save_result, save_run
from tests.unit.validators.evidence_builder import balanced, claim_set, coverage, evidence, use
from toolkit import store
from toolkit.model.evidence import Evidence
from validators.registry import RULES, judge

PROJECT = Path(__file__).resolve().parents[4]
RECORDED = sorted(path for path in (PROJECT / "tests" / "data" / "runs").iterdir() if path.is_dir())


def saved(path: Path, found: Evidence) -> Path:
    return save_run(path, claims=claim_set(), evidence=found)


ESCAPE = replace(use("db", 0, switches=1, run_ns=9, samples=0), out_of_set_switches=1, out_of_set_ns=9)
STORIES = {
    0: evidence(),
    1: balanced(evidence(cpu_use=(*evidence().cpu_use, ESCAPE))),
    3: evidence(coverage=coverage(lost_events=1)),
}


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.name)
def test_recorded_runs_are_judged_as_they_were(recorded: Path) -> None:
    """The rules say about a recorded run what they said when it was recorded."""
    run = store.load_run(recorded)

    assert run.result is not None
    # There may be more rules today, and more measures.
    now = {(verdict.rule, verdict.subject): verdict for verdict in judge(run.claims, run.evidence)}
    for then in run.result.verdicts:
        verdict = now[then.rule, then.subject]
        assert (verdict.outcome, verdict.offenders) == (then.outcome, then.offenders)
        # Part of a sentence then; now it is a phrase by the name of `excused`, where there is one.
        kept = {name: value for name, value in then.measures.items() if name != "but"}
        assert verdict.measures.items() >= kept.items()


@pytest.mark.parametrize("code", STORIES)
def test_judge_exit_codes(tmp_path: Path, code: int) -> None:
    """0 all passed, 1 something failed, 3 something undecided; the JSON is the result, and nothing is written."""
    run = saved(tmp_path / "run", STORIES[code])
    before = sorted(run.iterdir())
    done = pinproof("judge", run, "--json")

    assert done.exit_code == code
    assert done.stderr == ""
    assert json.loads(done.stdout)["schema"] == "pinproof.result/1"
    assert sorted(run.iterdir()) == before


def test_bad_run_is_one_line(tmp_path: Path) -> None:
    """A path that is no run: one line, exit code 2."""
    for verb in ("judge", "report"):
        done = pinproof(verb, tmp_path / "none")
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    done = pinproof("compare", tmp_path, tmp_path)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)


def test_report_formats(tmp_path: Path) -> None:
    """The same run as table, JSON and JUnit XML, to standard output or a file."""
    run = saved(tmp_path / "run", STORIES[1])
    output = tmp_path / "report.xml"

    assert "failed" in pinproof("report", run).stdout
    assert json.loads(pinproof("report", run, "--format", "json").stdout)["outcome"] == "failed"
    done = pinproof("report", run, "--format", "junit", "--output", output)
    assert (done.exit_code, done.stdout) == (1, "")
    assert ElementTree.parse(output).getroot().get("failures") == "2"


def test_compare_is_the_gate(tmp_path: Path) -> None:
    """A run that became worse exits with 1, better or equal with 0; run directories and result files mix."""
    good, bad = saved(tmp_path / "good", STORIES[0]), saved(tmp_path / "bad", STORIES[1])
    save_result(good, judge(claim_set(), STORIES[0]), STORIES[0])

    worse = pinproof("compare", good / "result.json", bad)
    assert worse.exit_code == 1
    assert "REGRESSED" in worse.stdout
    assert pinproof("compare", bad, good).exit_code == 0
    same = pinproof("compare", good, good, "--json")
    assert (same.exit_code, json.loads(same.stdout)["regressed"]) == (0, False)


def test_rules_and_explain() -> None:
    """Every rule is listed; its page tells tolerance and negative control; an unknown one lists the known."""
    listed = pinproof("rules").stdout
    page = pinproof("explain", "quota-throttling").stdout

    assert all(rule.id in listed for rule in RULES)
    assert [rule["id"] for rule in json.loads(pinproof("rules", "--json").stdout)] == [rule.id for rule in RULES]
    assert "Tolerance" in page
    assert "must come out failed" in page
    assert max(len(line) for line in (listed + page).splitlines()) <= 80
    unknown = pinproof("explain", "nope")
    assert (unknown.exit_code, unknown.stderr.count("\n")) == (2, 1)
