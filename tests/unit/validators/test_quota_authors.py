"""What changed a quota is named, and what refilled it with its own value; no verdict changes."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.validators.evidence_builder import WINDOW_NS, control_write, db_files, web_files
from tests.unit.validators.quota_builder import POD, levels, used, web
from toolkit.model.evidence import ControlWrite
from toolkit.model.verdict import Outcome

WEB = "/kubepods/podb/web"


def write(at_s: float, value: str, **changes: object) -> ControlWrite:
    return control_write(at_s, WEB, value, **{"file": "cpu.max", "comm": "writer", **changes})


def test_what_changed_it() -> None:
    """The writer of the value that was read, not that of the promised one before."""
    double = web_files(quota_us=100_000)
    found = levels(
        used(9_900, nr_periods=100, nr_throttled=99),
        files_before=(db_files(), web_files()),
        files_during=(replace(double, at_ns=3_000_000_000),),
        files_after=(db_files(), replace(double, at_ns=WINDOW_NS)),
        control_writes=(write(1, "50000 100000", comm="same"), write(2, "100000 100000")),
    )
    verdict = web(found)

    assert verdict.outcome is Outcome.FAILED
    assert "cpu.max of web was written by writer (pid 4711) at 01:00:02.000 UTC: '100000 100000'" in verdict.reason
    assert "same (" not in verdict.reason


def test_its_own_value_refills_it() -> None:
    """99 writes of its own value, 50 ms each: they explain 2.6 s that are too much, and are named as the cause."""
    writes = tuple(write(0.05 * number, "50000 100000") for number in range(1, 99))
    found = levels(
        used(8_000, nr_periods=100, nr_throttled=90),
        files_before=(db_files(), web_files()),
        files_after=(db_files(), web_files(at_ns=WINDOW_NS)),
        control_writes=(*writes, write(7, "50000", comm="other", pid=2), write(8, "1", errno=22)),
    )
    verdict = web(found)

    assert verdict.outcome is Outcome.FAILED
    assert verdict.measures["refills_count"] == 99
    assert (
        "; its own value was written again 99 times, and each write refills it, by 4950.0 ms in all, "
        "which is the cause of its excess: by writer (pid 4711) at 01:00:00.050 UTC, "
        "the last at 01:00:04.900 UTC, 1 time by others" in verdict.reason
    )


def test_too_few_writes_are_no_cause() -> None:
    """One refill of 50 ms does not explain seconds; nothing is said of it that is not so."""
    found = levels(used(9_500, nr_periods=100, nr_throttled=0), control_writes=(write(1, "50000 100000"),))

    assert "written again 1 time, and each write refills it, by 50.0 ms in all: by" in web(found).reason


def test_what_changed_a_level_above() -> None:
    """An ancestor that allows less is another cgroup, and so is its file."""
    low = replace(POD, quota_us=20_000, period_us=100_000, nr_throttled=90, nr_periods=100)
    found = levels(
        used(2_000, nr_periods=100, nr_throttled=0),
        low,
        control_writes=(control_write(-9, "/kubepods/podb", "20000 100000", file="cpu.max", comm="narrow"),),
    )
    verdict = web(found, demand_cpus=1.0)

    assert verdict.outcome is Outcome.FAILED
    assert "cpu.max of /kubepods/podb was written by narrow (pid 4711) at 00:59:51.000 UTC" in verdict.reason
