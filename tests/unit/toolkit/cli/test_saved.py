"""Verdicts that were edited: judge, report and compare go by the evidence, and say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.unit.toolkit.saved_runs import save_result, save_run
from tests.unit.validators.evidence_builder import claim_set, coverage, evidence
from toolkit.cli.compare import command as compare
from toolkit.cli.judge import command as judge_verb
from toolkit.cli.report import command as report
from toolkit.errors import InputError
from toolkit.model.evidence import Evidence
from toolkit.model.scenario import Scenario
from validators.registry import judge

LOSSY = evidence(coverage=coverage(lost_events=1))


def saved(path: Path, found: Evidence, scenario: str = "") -> Path:
    named = Scenario(name=scenario, title="") if scenario else None
    run = save_run(path, claims=claim_set(), evidence=found, scenario=named)
    save_result(run, judge(claim_set(), found), found)
    return run


def edit(run: Path, **changes: Any) -> None:
    """Make every saved verdict a good one, and change fields of the result."""
    data = json.loads((run / "result.json").read_text())
    for verdict in data["verdicts"]:
        if verdict["outcome"] != "skipped":
            verdict["outcome"] = "passed"
    (run / "result.json").write_text(json.dumps({**data, "outcome": "passed", **changes}))


@pytest.mark.parametrize("verb", [judge_verb, report])
def test_an_honest_run_is_not_commented_on(tmp_path: Path, verb: Any) -> None:
    """What a run saved is what its evidence says."""
    done = CliRunner().invoke(verb, [str(saved(tmp_path / "run", LOSSY))])

    assert (done.exit_code, done.stderr) == (3, "")


@pytest.mark.parametrize("verb", [judge_verb, report])
def test_edited_verdicts_are_not_believed(tmp_path: Path, verb: Any) -> None:
    """The exit code and the table are those of the evidence; the difference is told with rule and subject."""
    run = saved(tmp_path / "run", LOSSY)
    edit(run)

    done = CliRunner().invoke(verb, [str(run)])

    assert done.exit_code == 3
    assert "cpuset-containment db is saved as passed, its evidence gives undecided" in done.stderr
    assert "undecided" in done.stdout


def test_an_edited_head_is_told(tmp_path: Path) -> None:
    """Also a coverage or a duration that is not that of the evidence."""
    run = saved(tmp_path / "run", LOSSY)
    edit(run, duration_s=99.0, verdicts=[])

    done = CliRunner().invoke(judge_verb, [str(run)])

    assert (done.exit_code, "duration_s is not that of evidence.json" in done.stderr) == (3, True)


def test_compare_does_not_believe_either(tmp_path: Path) -> None:
    """The gate fails on the evidence, also when the result.json of the run is what it was given."""
    good, bad = saved(tmp_path / "good", evidence()), saved(tmp_path / "bad", LOSSY)
    edit(bad)

    for new in (bad, bad / "result.json"):
        assert CliRunner().invoke(compare, [str(good), str(new)]).exit_code == 1


def test_a_broken_link_is_not_the_lack_of_evidence(tmp_path: Path) -> None:
    """Saved verdicts are taken where there is no evidence, not where it leads nowhere."""
    run = saved(tmp_path / "run", LOSSY)
    edit(run)
    (run / "evidence.json").unlink()
    (run / "evidence.json").symlink_to("nowhere")

    done = CliRunner().invoke(compare, [str(run), str(run)])

    assert isinstance(done.exception, InputError)
    assert "evidence.json: a symbolic link" in str(done.exception)


@pytest.mark.parametrize("verb", [judge_verb, report])
def test_a_stage_before_counts(tmp_path: Path, verb: Any) -> None:
    """What was not shown while init containers ran is not shown by the run, however good its last stage is."""
    run = saved(tmp_path / "run", evidence())
    saved(run / "init-1", LOSSY)

    done = CliRunner().invoke(verb, [str(run)])

    assert (done.exit_code, done.stderr) == (3, "")
    assert "stage init-1: " in done.stdout


def test_a_result_alone_is_taken_with_a_word(tmp_path: Path) -> None:
    """Without evidence there is nothing to check but that the outcome is the worst verdict."""
    run = saved(tmp_path / "run", LOSSY)
    lone = tmp_path / "lone.json"
    lone.write_bytes((run / "result.json").read_bytes())

    done = CliRunner().invoke(compare, [str(lone), str(run)])
    assert (done.exit_code, done.stderr.count("no evidence beside it")) == (0, 1)

    lone.write_text(json.dumps({**json.loads(lone.read_text()), "outcome": "passed"}))
    broken = CliRunner().invoke(compare, [str(lone), str(run)])
    assert "outcome passed; expected undecided, the worst of its verdicts" in str(broken.exception)


def test_other_scenarios_are_refused_and_come_first(tmp_path: Path) -> None:
    """Runs of different scenarios differ in everything: exit code 2; a user who insists reads it before the rest."""
    one, two = saved(tmp_path / "one", evidence(), "quota"), saved(tmp_path / "two", evidence(), "memory")

    refused = CliRunner().invoke(compare, [str(one), str(two)])
    assert isinstance(refused.exception, InputError)
    assert "scenarios: quota and memory" in str(refused.exception)

    done = CliRunner().invoke(compare, [str(one), str(two), "--json", "--across"])
    told = json.loads(done.stdout)
    assert told["environment"][0] == {"name": "scenarios", "before": "quota", "after": "memory"}
    assert not told["regressed"]
