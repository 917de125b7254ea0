"""Which exit code wins, and that what is judged is printed and saved whatever becomes of either."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.unit.toolkit.saved_runs import save_run
from tests.unit.validators.evidence_builder import claim_set, evidence
from toolkit.cli import ending, report
from toolkit.cli.common import say
from toolkit.cli.ending import attempt, complain, show_and_save, worse
from toolkit.errors import ApplyError, HostUnsupportedError, InputError
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome, exit_code

ORDER = (0, 3, 2, 4, 129, 143, 70, 1)


@pytest.mark.parametrize(("less", "more"), list(itertools.combinations(ORDER, 2)))
def test_the_worse_exit_code(less: int, more: int) -> None:
    """That isolation failed is undone by nothing; an error is worse than an open question."""
    assert worse(less, more) == worse(more, less) == more


def test_the_codes_of_outcomes_are_those_of_the_model() -> None:
    """They are written down twice, so that `--help` need not import the model."""
    outcomes = (Outcome.FAILED, Outcome.UNDECIDED, Outcome.PASSED)
    assert tuple(map(exit_code, outcomes)) == (ending._FAILED, ending._UNDECIDED, ending._PASSED)


def test_no_exit_code() -> None:
    """Nothing went wrong."""
    assert worse() == 0
    assert worse(3) == 3


@pytest.mark.parametrize("error", [InputError("a", "b"), HostUnsupportedError("c"), ApplyError("d")])
def test_an_error_is_one_line_and_its_code(error: Exception, capfd: pytest.CaptureFixture[str]) -> None:
    """What is tried and fails is told, and stops nothing."""

    def act() -> None:
        raise error

    assert attempt(act) == (2 if isinstance(error, InputError) else 4)
    assert capfd.readouterr().err == f"pinproof: {error}\n"


def test_what_cannot_be_printed_is_saved(tmp_path: Path) -> None:
    """The error of printing goes on when the run is on the disk."""

    def show() -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        show_and_save(show, lambda: (tmp_path / "saved").touch())
    assert (tmp_path / "saved").exists()


def test_a_report_that_cannot_be_written_is_printed(tmp_path: Path) -> None:
    """The file's place changes nothing about the report; the exit code says that the file is not there."""
    run = save_run(tmp_path / "run", claims=claim_set(), evidence=evidence())
    done = CliRunner().invoke(report.command, [str(run), "--format", "json", "--output", str(tmp_path / "no" / "file")])

    assert done.exit_code == 2
    assert Result(**json.loads(done.stdout)).schema == "pinproof.result/1"
    assert done.stderr.count("\n") == 1
    assert f"{tmp_path / 'no' / 'file'}: No such file or directory" in done.stderr


def test_a_full_standard_error_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told there while a window is open is no reason to lose the window."""
    full = os.open("/dev/full", os.O_WRONLY)
    stream = os.fdopen(full, "w", closefd=False)
    monkeypatch.setattr(sys, "stderr", stream)

    say("db: a task ran outside its set", err=True)
    complain("something")
    assert attempt(lambda: say("x", err=True)) == 0
    # What it holds still cannot be written: /dev/null takes it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), full)
    stream.close()
    os.close(full)


@pytest.mark.parametrize("reader", ["left", "reads"])
def test_a_remark_needs_no_reader(reader: str) -> None:
    """The last line of a verb: a reader that left after the first lines has missed nothing, and the exit code stays."""
    program = "import sys; from toolkit.cli.ending import remark; remark('saved'); sys.exit(3)"
    read, write = os.pipe()
    if reader == "left":
        os.close(read)
    done = subprocess.run([sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)

    assert (done.returncode, done.stderr) == (3, "")
    if reader == "reads":
        assert os.read(read, 100) == b"saved\n"
        os.close(read)
