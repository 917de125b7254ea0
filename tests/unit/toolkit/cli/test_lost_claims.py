"""Claims that were taken out of a saved run: what is left passes, and the run does not."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.unit.toolkit.cli.taken_out import take_out
from tests.unit.toolkit.saved_runs import save_result, save_run
from tests.unit.validators.evidence_builder import claim_set, claim_web, evidence, use
from toolkit.cli.main import cli
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.evidence import Evidence
from validators.registry import judge

RECORDED = Path(__file__).resolve().parents[3] / "data" / "runs" / "three-classes"


def call(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def saved(path: Path, found: Evidence, claims: Any = None) -> Path:
    claims = claims or claim_set()
    run = save_run(path, claims=claims, evidence=found)
    save_result(run, judge(claims, found), found)
    return run


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    """A run in which ``db`` ran outside its CPUs, and ``web`` did nothing wrong."""
    row = replace(use("db", 0, switches=3, run_ns=41_200, samples=0), out_of_set_switches=3, out_of_set_ns=41_200)
    run = saved(tmp_path / "run", evidence(cpu_use=(*evidence().cpu_use, row)))
    assert call("judge", run).exit_code == 1
    return run


@pytest.mark.parametrize(
    "stages",
    [("claims",), ("claims", "result"), ("claims", "evidence")],
    ids=["named-by-both", "named-by-evidence", "named-by-result"],
)
def test_the_failed_claim_is_taken_out(failed: Path, tmp_path: Path, stages: tuple[str, ...]) -> None:
    """It is enough that the evidence or the result still names it."""
    good = saved(tmp_path / "good", evidence())
    for stage in stages:
        take_out(failed, stage, "db")

    done = call("judge", failed, "--json")
    (lacking,) = [one for one in json.loads(done.stdout)["verdicts"] if one["subject"] == "claims"]

    assert (done.exit_code, lacking["outcome"]) == (3, "undecided")
    assert lacking["reason"] == "claims.json lacks claims that evidence.json or result.json name: db"
    assert call("report", failed).exit_code == 3
    assert call("compare", good, failed).exit_code == 1
    assert call("compare", failed, failed).exit_code == 0


def test_without_a_result_the_evidence_names_it(failed: Path) -> None:
    """A result.json that is away as well hides nothing."""
    take_out(failed, "claims", "db")
    (failed / "result.json").unlink()

    assert call("judge", failed).exit_code == 3


def test_another_name_is_another_claim(failed: Path) -> None:
    """A claim by another name was not watched."""
    path = failed / "claims.json"
    path.write_text(path.read_text().replace('"name": "db"', '"name": "cache"'))

    assert call("judge", failed).exit_code == 3


def test_all_are_taken_out(failed: Path) -> None:
    """Nothing is promised any more, and nothing passes."""
    path = failed / "claims.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "claims": []}))

    assert call("judge", failed).exit_code == 3


def test_claims_that_come_meanwhile_are_not_lacking(tmp_path: Path) -> None:
    """What began while the window was open is a change, and has rows of its own."""
    web = ClaimChange(at_ns=0, claim=claim_web())
    run = saved(tmp_path / "run", evidence(claim_changes=(web,)), claim_set(replace(claim_set().claims[0])))

    done = call("judge", run, "--json")

    assert (done.exit_code, done.stderr) == (0, "")


def test_a_recorded_run_lacks_none(tmp_path: Path) -> None:
    """Of a real machine; each of its claims is noticed when it is away."""
    names = [one["name"] for one in json.loads((RECORDED / "claims.json").read_text())["claims"]]
    assert call("judge", RECORDED).exit_code == 0
    for name in names:
        run = tmp_path / name.replace("/", "-")
        shutil.copytree(RECORDED, run)
        take_out(run, "claims", name)
        assert call("judge", run).exit_code == 3
