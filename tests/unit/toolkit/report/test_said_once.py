"""What a reader is told, once, in words that are the same everywhere, and as wide as the terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.unit.validators.evidence_builder import claim_set, coverage, evidence, in_a_row, use
from toolkit.cli.main import cli
from toolkit.faults.registry import FAULTS, INJECTABLE, WORDS, fault_named, id_of
from toolkit.model.blind_spots import BlindSpot
from toolkit.model.result import Result, make_result
from toolkit.model.verdict import Offender, Outcome, Verdict
from toolkit.report.table import render_table
from toolkit.session.windows.sums import Sums
from toolkit.timeline.ran import asked
from validators.registry import judge

RUN = Path(__file__).resolve().parents[3] / "data/runs/quota-half-busy-host"
HIDDEN = "this kernel hides threads from its tracepoints: {} ({} switches in the window)"


def three_windows() -> Result:
    """In each, ``db`` ran outside; each time for another while, and beside other hidden threads."""
    sums = Sums()
    windows = []
    for number in (1, 2, 3):
        row = replace(use("db", 0, switches=number, samples=0), out_of_set_switches=number, out_of_set_ns=number * 1000)
        text = HIDDEN.format(", ".join(f"vsock-console ({50 + one})" for one in range(number)), number)
        seen = coverage(blindness=(BlindSpot(text=text),), blind_spots=(text,))
        windows.append(evidence(cpu_use=(*evidence().cpu_use, row), coverage=seen))
    for number, one in enumerate(in_a_row(*windows), start=1):
        sums.add(number, make_result(one, judge(claim_set(), one), unknown=None), asked(one).rows)
    return sums.result()


def test_a_failure_of_three_windows_is_told_once() -> None:
    """The verdict says how it was; the list of windows in which it was names it. Nothing unseen is listed twice."""
    text = " ".join(render_table(three_windows()).split())
    assert text.count("outside 2-3: ") == 1
    assert re.search(r"- window 3, \S+, 10.0 s: [^-]*cpuset-containment db failed", text)
    assert text.count("this kernel hides threads") == 1
    assert "and 2 times more, with other numbers" in text


def of(rule: str, *offenders: Offender) -> str:
    verdict = Verdict(
        rule=rule, subject="db", outcome=Outcome.FAILED, reason="it was", measures={}, offenders=offenders
    )
    return render_table(make_result(evidence(), (verdict,), unknown=None))


def task(tid: int, comm: str = "sleep", **changes: int) -> Offender:
    values = {"cpu": tid % 2, "first_at_ns": 5_000_000, "total_ns": 1_000_000, "longest_ns": 1_000_000, "switches": 2}
    return Offender(claim="db", tid=tid, comm=comm, **{**values, **changes})


def test_tasks_of_one_command_stand_together() -> None:
    """Many of them are a number and a sum; another command among them, and a few of them, keep their names."""
    text = " ".join(of("cpuset-containment", *map(task, range(100, 512)), task(7, "hog")).split())
    assert "- sleep of db, CPUs 0-1: 412 tasks, 824 switches, 412.000 ms, longest 1.000 ms" in text
    assert "- hog (7) of db, CPU 1: 2 switches" in text
    assert "more (--json" not in text
    assert "- sleep (101) of db, CPU 1: 2 switches" in of("cpuset-containment", task(100), task(101))


@pytest.mark.parametrize("rule", ["affinity-mask", "transition-window"])
@pytest.mark.parametrize("tasks", [1, 400])
def test_a_mask_has_not_run(rule: str, tasks: int) -> None:
    """For how long a thread was allowed more is no run time, and it has no switches."""
    text = of(rule, *(task(100 + number, switches=0) for number in range(tasks)))
    assert "switch" not in text.partition("Failed")[2].partition("For 10.0 s")[0]
    assert ("allowed for 1.0 ms" if tasks == 1 else "400 tasks") in text


@pytest.mark.parametrize(("typed", "meant"), [("jugde", "judge"), ("dcotor", "doctor"), ("Watch", "watch")])
def test_a_verb_that_is_misspelt(typed: str, meant: str) -> None:
    """Names the verb that was meant; what is like none names none."""
    done = CliRunner().invoke(cli, [typed])
    assert (done.exit_code, f"Did you mean {meant}?" in done.stderr) == (2, True)
    assert "Did you mean" not in CliRunner().invoke(cli, ["xyzzy"]).stderr


def test_one_word_for_one_fault() -> None:
    """What ``conformance --list`` names ``inject`` names, too, and it takes the scenarios' words for it."""
    listed = CliRunner().invoke(cli, ["conformance", "--list"]).stdout
    named = set(re.findall(r"([a-z-]+)\s+fails", listed))
    assert named
    assert named <= {fault.id for fault in FAULTS}
    assert not named & (set(WORDS) - {fault.id for fault in FAULTS})
    for fault in INJECTABLE:
        assert all(fault_named(word.word) is fault for word in fault.words)
        assert id_of(fault.id) == fault.id


def on_a_terminal(columns: int, *arguments: str, **environment: str) -> str:
    """Return what a verb prints to a terminal of so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    command = [sys.executable, "-m", "toolkit", *arguments]
    with subprocess.Popen(command, stdout=slave, stderr=slave, env=kept | environment) as process:
        os.close(slave)
        pieces = []
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            pieces.append(piece)
    os.close(master)
    assert process.returncode == 1
    return b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("verb", ["judge", "report"])
def test_a_terminal_has_its_width_and_its_colours(verb: str) -> None:
    """A pipe has 80 columns and no colour, whatever ``COLUMNS`` says; so has a file; NO_COLOR is respected."""
    wide = on_a_terminal(130, verb, str(RUN))
    assert "\x1b[31m\x1b[1mFailed\x1b[0m" in wide
    assert 80 < max(map(len, wide.splitlines())) <= 130
    assert "\x1b" not in on_a_terminal(130, verb, str(RUN), NO_COLOR="1")
    assert max(map(len, on_a_terminal(60, verb, str(RUN), NO_COLOR="1").splitlines())) <= 80
    command = [sys.executable, "-m", "toolkit", verb, str(RUN)]
    piped = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "130"})
    assert "\x1b" not in piped.stdout
    assert max(map(len, piped.stdout.splitlines())) <= 80


def test_a_file_is_as_wide_as_ever(tmp_path: Path) -> None:
    """Also where its report is written from a terminal."""
    on_a_terminal(130, "report", str(RUN), "--output", str(tmp_path / "r.txt"))
    text = (tmp_path / "r.txt").read_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert json.loads(on_a_terminal(130, "report", str(RUN), "--json"))["outcome"] == "failed"
