"""What wrote the file that is not as promised is named with time, pid, name and value; no verdict changes by it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import (
    SECOND,
    WINDOW_NS,
    claim_db,
    claim_set,
    claim_web,
    control_write,
    cpus,
    db_files,
    evidence,
    web_files,
)
from toolkit.model.blind_spots import TELLS_AUTHORS
from toolkit.model.evidence import ControlWrite, Evidence
from toolkit.model.verdict import Outcome, Verdict
from validators.rules import applied, layers_agree

DB = "/kubepods/poda/db"
WIDE = db_files(cpus=cpus("0-3"), cpus_effective=cpus("0-3"))


def write(at_s: float, value: str, **changes: object) -> ControlWrite:
    """Return an accepted write to db's ``cpuset.cpus``."""
    changes.setdefault("tid", changes.get("pid", 4711))
    return replace(control_write(at_s, DB, value), **changes)  # type: ignore[arg-type]


def drifted(*writes: ControlWrite, read_s: float = 3) -> Evidence:
    """Wide from the reading at 3 s until the end."""
    return evidence(
        files_before=(db_files(), web_files()),
        files_during=(replace(WIDE, at_ns=round(read_s * SECOND)),),
        files_after=(replace(WIDE, at_ns=WINDOW_NS), web_files()),
        control_writes=writes,
    )


def of_db(found: Evidence) -> Verdict:
    """Return what ``applied`` says about db."""
    return next(one for one in applied.check(claim_set(claim_db(), claim_web()), found) if one.subject == "db")


def test_applied_names_the_writer() -> None:
    """The one before the reading, not one after it, nor one that was refused, nor one of another file or cgroup."""
    verdict = of_db(
        drifted(
            write(2.25, "0-3"),
            write(2.5, "1", errno=22),
            write(2.6, "1", file="cpu.max"),
            write(2.7, "1", cgroup="/kubepods/podb/web"),
            write(4.0, "2-3", pid=1),
        )
    )

    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason.endswith("; cpuset.cpus of db was written by sh (pid 4711) at 01:00:02.250 UTC: '0-3'")
    assert {key: verdict.measures[key] for key in verdict.measures if key.startswith("writ")} == {
        "written_file": "cpuset.cpus",
        "written_value": "0-3",
        "written_at_ms": 2250.0,
        "writer_pid": 4711,
        "writer_tid": 4711,
        "writer_comm": "sh",
    }


@pytest.mark.parametrize(
    ("writes", "said"),
    [
        ((), "as read from 3.0 s to the end cpuset.cpus was 0-3, promised 2-3"),
        ((write(2, "0-3", tid=9, own=True),), "by sh (pid 4711, thread 9, pinproof itself) at 01:00:02.000 UTC: '0-3'"),
        ((write(1, "2"), write(2, "0-3")), "by sh (pid 4711) at 01:00:02.000 UTC: '0-3', the last of 2 changes"),
        ((write(-60, "0-3"),), "; which task wrote it is not known: no write to it was seen since it was right"),
        (
            (write(-60, "2-3"), write(2, "0-1", cgroup="/kubepods")),
            "; cpuset.cpus of /kubepods was written by sh (pid 4711) at 01:00:02.000 UTC",
        ),
        (
            (write(2, "0-3"), write(2.5, "0-3", cgroup="/kubepods")),
            "cpuset.cpus of db was written by sh (pid 4711) at 01:00:02.000 UTC",
        ),
    ],
    ids=("none", "own", "many", "earlier", "above", "own-before-above"),
)
def test_which_write_is_named(writes: tuple[ControlWrite, ...], said: str) -> None:
    """Its own file's since the reading before, then one above; none that wrote before a reading that was right."""
    verdict = of_db(drifted(*writes))

    assert verdict.outcome is Outcome.FAILED
    assert said in verdict.reason
    assert ("writer_pid" in verdict.measures) == (" by sh " in verdict.reason)


def test_wrong_when_the_window_opened() -> None:
    """The writer of a window before is still known; a write in this one did not do it."""
    found = evidence(
        files_before=(WIDE, web_files()),
        files_after=(replace(WIDE, at_ns=WINDOW_NS), web_files()),
        control_writes=(write(-31.5, "0-3"), write(5, "0-3", pid=5)),
    )

    assert "was written by sh (pid 4711) at 00:59:28.500 UTC, 31.5 s before the window" in of_db(found).reason


def test_evidence_without_the_witness() -> None:
    """Evidence without this witness, as before it existed, says what it said."""
    found = drifted()

    verdict = of_db(replace(found, control_writes=None))

    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason.endswith("promised 2-3; cpuset.cpus.effective was 0-3, promised 2-3")


@pytest.mark.parametrize("what", ["what", "who"])
def test_the_option_that_would_tell(what: str) -> None:
    """Where this kernel does not tell what writes, the verdict says which option does; runs saved before said "who"."""
    spot = f"{what} writes control files is not observed: no trampolines"
    way = f"; {TELLS_AUTHORS} sees it at the cost of every system call"
    found = replace(drifted(), control_writes=None)
    reasons = [
        of_db(replace(found, coverage=replace(found.coverage, blind_spots=(text,)))).reason
        for text in (spot, spot + way)
    ]
    lost = of_db(replace(drifted(), coverage=replace(found.coverage, control_writes_dropped=2)))

    assert reasons[0].endswith("; which task wrote it is not known: this kernel does not tell")
    text = "; which task wrote it is not known: this kernel does not tell, `watch --trace-syscalls` does"
    assert reasons[1].endswith(text)
    assert lost.reason.endswith("; which task wrote it is not known: 2 writes not reported")


@pytest.mark.parametrize(
    ("writes", "said"),
    [
        (
            (
                write(2, "0-3", pid=1, comm="culprit"),
                write(2.1, "0-9", errno=22),
                write(2.2, "0,1-3", pid=3, comm="again"),
            ),
            "by culprit (pid 1) at 01:00:02.000 UTC: '0-3', and the same again 1 time",
        ),
        ((write(1, "2-3", pid=1, comm="same"), write(2, "0-3", pid=2)), "by sh (pid 2) at 01:00:02.000 UTC: '0-3'"),
        ((write(2, "0-3"), write(3.01, "2-3", pid=9, comm="healer")), "by sh (pid 4711) at 01:00:02.000 UTC: '0-3'"),
        (
            (write(2, "0-3", pid=1), write(2.1, "2-3", pid=2), write(2.2, "0-3", pid=3)),
            "by sh (pid 3) at 01:00:02.200 UTC",
        ),
        ((write(2, "2-3", pid=1),), "; which task wrote it is not known: no write to it was seen since it was right"),
    ],
    ids=("repeated", "its-own-value-first", "healed-while-read", "and-back-again", "only-its-own-value"),
)
def test_the_author_changed_it(writes: tuple[ControlWrite, ...], said: str) -> None:
    """Not one that wrote the same again, was refused, wrote what it had, or put it right."""
    reason = of_db(drifted(*writes)).reason

    assert said in reason
    assert not re.search("again .pid|healer|same .pid", reason)


def test_a_writer_that_repeats_what_was_wrong_changed_nothing() -> None:
    """It was wrong when the watch began: none is named."""
    found = evidence(
        files_before=(WIDE, web_files()),
        files_after=(replace(WIDE, at_ns=WINDOW_NS), web_files()),
        control_writes=(write(5, "0-3", pid=5),),
    )

    assert of_db(found).reason.endswith("; which task wrote it is not known: it was so when the watch began")


def test_the_file_that_changed_not_the_one_beside_it() -> None:
    """v1 has two files: a program that wrote the period's own value again did not change the quota."""
    half, full = web_files(), web_files(quota_us=100_000)
    rows = [("cpu.cfs_quota_us", "100000", 1, 2.0), ("cpu.cfs_period_us", "100000", 2, 2.5)]
    found = evidence(
        files_before=(db_files(), half),
        files_during=(replace(full, at_ns=3 * SECOND),),
        files_after=(db_files(), replace(full, at_ns=WINDOW_NS)),
        control_writes=tuple(
            write(at, value, file=file, cgroup="/kubepods/podb/web", pid=pid) for file, value, pid, at in rows
        ),
    )
    web = next(one for one in applied.check(claim_set(claim_db(), claim_web()), found) if one.subject == "web")

    assert "cpu.cfs_quota_us of web was written by sh (pid 1)" in web.reason


def test_a_quota_has_its_own_files() -> None:
    """In both hierarchies."""
    half, full = web_files(), web_files(quota_us=100_000)
    for file, value in (("cpu.max", "100000 100000"), ("cpu.cfs_quota_us", "100000")):
        found = evidence(
            files_before=(db_files(), half),
            files_during=(replace(full, at_ns=3 * SECOND),),
            files_after=(db_files(), replace(full, at_ns=WINDOW_NS)),
            control_writes=(write(2, value, file=file, cgroup="/kubepods/podb/web"), write(2.5, "1")),
        )
        web = next(one for one in applied.check(claim_set(claim_db(), claim_web()), found) if one.subject == "web")
        assert f"{file} of web was written by sh (pid 4711) at 01:00:02.000 UTC: '{value}'" in web.reason


def test_layers_agree_names_the_writer() -> None:
    """Where the cgroup drifts from the claim."""
    (db, *_) = layers_agree.check(claim_set(claim_db()), drifted(write(2, "0-3")))

    assert db.outcome is Outcome.FAILED
    assert "claim and cgroup differed as read from 3.0 s to the end" in db.reason
    assert db.reason.endswith("; cpuset.cpus of db was written by sh (pid 4711) at 01:00:02.000 UTC: '0-3'")
