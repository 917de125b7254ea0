"""A run of several windows, judged again from its directory; and what ``watch --window`` refuses."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.unit.toolkit.cli.taken_out import take_out
from tests.unit.validators.evidence_builder import balanced, claim_set, evidence, in_a_row, use
from toolkit.cli.main import cli
from toolkit.errors import InputError
from toolkit.model.evidence import Evidence
from toolkit.session.engine.record import recorded
from toolkit.session.windows.sums import Sums
from toolkit.store import WINDOW, digest_of, reread, save_windows_result


def escaped() -> Evidence:
    """A window in which ``db`` ran outside."""
    row = replace(use("db", 0, switches=3, run_ns=41_200, samples=0), out_of_set_switches=3, out_of_set_ns=41_200)
    return balanced(evidence(cpu_use=(*evidence().cpu_use, row)))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three windows, the second of which failed."""
    sums, path, before = Sums(), tmp_path / "run", ""
    for number, found in enumerate(in_a_row(evidence(), escaped(), evidence()), start=1):
        record = recorded(path / WINDOW.format(number), claims=claim_set(), evidence=found, before=before)
        record.save()
        before = digest_of(record.texts["result"])
        sums.add(number, record.result, record.ran.rows)
    save_windows_result(path, reread(sums.result()))
    return path


def test_all_windows_are_judged(run: Path) -> None:
    """The same result as was saved, without a word on standard error; the exit code is the worst window's."""
    done = CliRunner().invoke(cli, ["judge", str(run), "--json"])
    assert (done.exit_code, done.stderr) == (1, "")
    assert json.loads(done.stdout) == json.loads((run / "result.json").read_text())


def test_a_window_is_a_run(run: Path) -> None:
    """Each can be judged by itself."""
    codes = [CliRunner().invoke(cli, ["judge", str(run / WINDOW.format(number))]).exit_code for number in (1, 2, 3)]
    assert codes == [0, 1, 0]


def test_other_verbs_take_it(run: Path, tmp_path: Path) -> None:
    """``report`` and ``compare`` read it as they read a run of one window."""
    report = CliRunner().invoke(cli, ["report", str(run), "--format", "junit"])
    assert report.exit_code == 1
    assert "window 2 of 3" in report.stdout
    assert CliRunner().invoke(cli, ["compare", str(run), str(run)]).exit_code == 0
    good = tmp_path / "good"
    recorded(good, claims=claim_set(), evidence=evidence()).save()
    assert CliRunner().invoke(cli, ["compare", str(good), str(run)]).exit_code == 1


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_window_that_is_gone_has_not_passed(run: Path, number: int) -> None:
    """A person who takes the failed window away gets no green run, wherever it was in the row."""
    shutil.rmtree(run / WINDOW.format(number))
    done = CliRunner().invoke(cli, ["judge", str(run), "--json"])
    result = json.loads(done.stdout)
    (lacking,) = [one for one in result["verdicts"] if one["subject"] == "windows"]
    assert lacking["outcome"] == "undecided"
    assert done.exit_code == (3 if number == 2 else 1)


def test_a_claim_that_no_window_has_any_more_has_not_passed(run: Path) -> None:
    """Also where it is out of the evidence of every window, and only the sums still name it."""
    for number in (1, 2, 3):
        for stage in ("claims", "evidence", "result"):
            take_out(run / WINDOW.format(number), stage, "db")
    done = CliRunner().invoke(cli, ["judge", str(run), "--json"])
    (lacking,) = [one for one in json.loads(done.stdout)["verdicts"] if one["subject"] == "claims"]
    assert (done.exit_code, lacking["outcome"], lacking["measures"]) == (3, "undecided", {"claims_missing_count": 1})


def test_sums_behind_a_broken_link_are_not_lacking(run: Path) -> None:
    """Without them it is not known that the last windows are gone: they may be absent, but not unreadable."""
    shutil.rmtree(run / WINDOW.format(3))
    (run / "result.json").unlink()
    (run / "result.json").symlink_to("nowhere")

    assert isinstance(CliRunner().invoke(cli, ["judge", str(run)]).exception, InputError)


def test_a_run_that_was_killed_is_judged_as_far_as_it_goes(run: Path) -> None:
    """Without the file that is written last the windows are there all the same."""
    (run / "result.json").unlink()
    assert CliRunner().invoke(cli, ["judge", str(run)]).exit_code == 1


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "ten", "1e12"])
def test_a_window_that_is_no_time(value: str, tmp_path: Path) -> None:
    """One line, exit code 2."""
    done = CliRunner().invoke(cli, ["watch", "--claims", str(tmp_path / "c.yaml"), "--window", value])
    assert done.exit_code == 2
    assert "--window" in done.stderr
