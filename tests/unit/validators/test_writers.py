"""Who wrote the file that is not as promised is named with time, pid, name and value; no verdict changes by it."""

from __future__ import annotations

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
from toolkit.model.evidence import ControlWrite, Evidence
from toolkit.model.verdict import Outcome, Verdict
from validators.rules import applied, layers_agree

DB = "/kubepods/poda/db"
WIDE = db_files(cpus=cpus("0-3"), cpus_effective=cpus("0-3"))


def write(at_s: float, value: str, **changes: object) -> ControlWrite:
    """Return an accepted write to db's ``cpuset.cpus``."""
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
    assert verdict.reason.endswith("; cpuset.cpus of db was written at 2.250 s by sh[4711]: '0-3'")
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
        ((write(2, "0-3", tid=9, own=True),), "at 2.000 s by sh[4711, thread 9] (pinproof itself): '0-3'"),
        ((write(1, "2"), write(2, "0-3")), "at 2.000 s by sh[4711]: '0-3', the last of 2 writes"),
        ((write(-60, "0-3"),), "cpuset.cpus of db was last written 60.0 s before the window by sh[4711]: '0-3'"),
        (
            (write(-60, "2-3"), write(2, "0-1", cgroup="/kubepods")),
            "; cpuset.cpus of /kubepods was written at 2.000 s",
        ),
        ((write(2, "0-3"), write(2.5, "0-3", cgroup="/kubepods")), "cpuset.cpus of db was written at 2.000 s by"),
    ],
    ids=("nobody", "own", "many", "earlier", "above", "own-before-above"),
)
def test_which_write_is_named(writes: tuple[ControlWrite, ...], said: str) -> None:
    """Its own file's since the reading before, then one above, then the last that is known of before."""
    verdict = of_db(drifted(*writes))

    assert verdict.outcome is Outcome.FAILED
    assert said in verdict.reason
    assert ("writer_pid" in verdict.measures) == bool(writes)


def test_wrong_when_the_window_opened() -> None:
    """The writer of a window before is still known; a write in this one did not do it."""
    found = evidence(
        files_before=(WIDE, web_files()),
        files_after=(replace(WIDE, at_ns=WINDOW_NS), web_files()),
        control_writes=(write(-31.5, "0-3"), write(5, "0-3", pid=5)),
    )

    assert "was written 31.5 s before the window by sh[4711]" in of_db(found).reason


def test_nobody_looked() -> None:
    """Evidence without this witness, as before it existed, says what it said."""
    found = drifted()

    assert of_db(replace(found, control_writes=None)) == of_db(found)


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
        assert f"{file} of web was written at 2.000 s by sh[4711]: '{value}'" in web.reason


def test_layers_agree_names_the_writer() -> None:
    """Where the cgroup drifts from the claim."""
    (db, *_) = layers_agree.check(claim_set(claim_db()), drifted(write(2, "0-3")))

    assert db.outcome is Outcome.FAILED
    assert "claim and cgroup differed as read from 3.0 s to the end" in db.reason
    assert db.reason.endswith("; cpuset.cpus of db was written at 2.000 s by sh[4711]: '0-3'")
