"""The table of distributions says what was recorded: each verb is tried, and one that did not pass is named."""

from __future__ import annotations

import json
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from toolkit.verbs import VERBS
from tools import distributions
from tools.verbs_tried import TRIES, cgroup_roots, last_line, main, outcome, reason

PROGRAM = """#!/bin/sh
case $1 in
--version) printf 'pinproof, version 9\\nbcc 0.1 with LLVM 2; Linux 6; Python 3.99\\n' ;;
watch) echo 'one|two' >&2; exit 3 ;;
inject) echo 'no bpf here' >&2; exit 4 ;;
rules) exit 70 ;;
esac
"""


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is recorded of a program that ends with each kind of exit code."""
    folder = tmp_path_factory.mktemp("tried")
    program = folder / "pinproof"
    program.write_text(PROGRAM)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    out = folder / distributions.FOLDER / "one.json"
    words = ["--how", "a_package", "--commit", "abc", "--command", "make_it", "--distribution", "Debian"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--out", str(out), "--", str(program)], beside=lambda _: nullcontext())
    assert stop.value.code == 1  # a verb failed
    return folder


def test_every_verb_is_tried() -> None:
    """Each once; what a verb reads is made before it."""
    assert set(TRIES) == set(VERBS)
    order = list(TRIES)
    assert order.index("run") < min(order.index(verb) for verb, words in TRIES.items() if "{run}" in words)


def test_exit_codes_are_told_apart(record: Path) -> None:
    """Passed, undecided, cannot; every other one failed, a defect too."""
    (one,) = distributions.records(record)

    assert {one["verbs"][verb]["outcome"] for verb in VERBS} == {"passed", "undecided", "cannot", "failed"}
    assert one["verbs"]["watch"]["said"] == "one|two"
    assert [outcome(code) for code in (0, 1, 2, 3, 4, 70)] == [
        "passed",
        "failed",
        "failed",
        "undecided",
        "cannot",
        "failed",
    ]


def test_a_row_names_what_did_not_pass(record: Path) -> None:
    """With what it said; the rest is counted."""
    (one,) = distributions.records(record)
    row = distributions.row(one)

    assert row[0] == "Debian"
    assert row[2:5] == ("a package", "Python 3.99, bcc 0.1 with LLVM 2", f"{len(VERBS) - 3} of {len(VERBS)}")
    assert set(row[5].split("; ")) == {"`watch` undecided: one|two", "`inject` cannot: no bpf here", "`rules` failed: "}
    assert row[6].endswith("abc, `make it`")


def test_a_record_without_a_verb_is_refused(record: Path, tmp_path: Path) -> None:
    """It is of an older pinproof: the table would say something about a verb that was never called."""
    (one,) = distributions.records(record)
    (tmp_path / distributions.FOLDER).mkdir(parents=True)
    del one["verbs"]["status"]
    (tmp_path / distributions.FOLDER / "old.json").write_text(json.dumps(one))

    with pytest.raises(ValueError, match=r"old\.json"):
        list(distributions.records(tmp_path))


def test_a_verb_that_reads_a_run_ends_as_the_run_did() -> None:
    """It passed then; to call a failed or undecided run passed is no pass."""
    assert [outcome(code, 3) for code in (3, 0, 1)] == ["passed", "failed", "failed"]


def test_why_a_verb_is_undecided() -> None:
    """Its first undecided verdict, not the line about where it was saved."""
    text = "Undecided\n  quota  web/app\n    the host was busy\n\nPassed\n  applied\n"

    assert reason(text, "Run saved in W\n") == "quota web/app the host was busy"
    assert reason("", "Run saved in W\n") == "Run saved in W"
    skipped = "Skipped 1 scenario (--verbose names them)\n     1  needs stress-ng\n\n0 passed; took 2\ns.\n"
    assert reason(skipped, "") == "1 needs stress-ng"


def test_the_task_that_is_watched_is_in_each_hierarchy() -> None:
    """A v1 cpuset has the CPUs where v2 has no such controller."""
    hybrid = "cgroup /c/cpuset cgroup rw,cpuset 0 0\ncgroup /c/cpu cgroup rw,cpu 0 0\nu /c/unified cgroup2 rw 0 0\n"
    assert cgroup_roots(hybrid) == [Path("/c/unified"), Path("/c/cpuset")]
    assert cgroup_roots("cgroup2 /c cgroup2 rw 0 0\n") == [Path("/c")]
    assert cgroup_roots("proc /proc proc rw 0 0\n") == []


def test_the_last_line_that_says_something() -> None:
    """Of many, and of none."""
    assert last_line("one\ntwo\n\n") == "two"
    assert last_line("") == ""
