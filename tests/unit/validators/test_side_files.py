"""Files that decide what a promise is worth: an idle cgroup, a partition, ``memory.high``, a cap of utilisation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, cpus, db_files, evidence
from toolkit.model.claims import Claim
from toolkit.model.evidence import CgroupFiles
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.verdict import Outcome, Verdict
from validators.rules import applied

USUAL: dict[str, Any] = {
    "idle": False,
    "partition": "member",
    "exclusive": cpus(""),
    "exclusive_effective": cpus(""),
    "uclamp_min_percent": 0.0,
    "uclamp_max_percent": 100.0,
    "memory_high_bytes": NO_LIMIT,
    "memory_min_bytes": 0,
    "memory_low_bytes": 0,
    "swap_max_bytes": 0,
}


def judged(claim: Claim, *read: CgroupFiles, **changes: Any) -> Verdict:
    return applied.RULE(claim_set(claim), evidence(files_before=read, files_after=read, **changes))[0]


def test_what_the_kernel_makes_and_runtimes_write_is_no_word() -> None:
    """Files as of a new cgroup, swap forbidden as a runtime does it: passed, and the reason is as without them."""
    plain, usual = judged(claim_db(), db_files()), judged(claim_db(), db_files(**USUAL))

    assert usual.outcome is Outcome.PASSED
    assert ";" not in usual.reason
    assert {name: value for name, value in usual.measures.items() if name not in plain.measures} == {
        "swap_max_bytes": 0
    }


def test_an_idle_cgroup_breaks_a_weight() -> None:
    """``cpu.idle`` 1 is failed where a weight was promised, before what it makes of the weight is said."""
    verdict = judged(claim_db(shares=1024, weight=None), db_files(idle=True, weight=1))

    assert verdict.outcome is Outcome.FAILED
    assert "cpu.idle was 1 (only where nothing else wants the CPU), promised 1024 shares" in verdict.reason


def test_an_idle_cgroup_in_between_is_dated() -> None:
    """One that was idle for a reading in the middle of the window fails with its time."""
    seen = db_files(idle=False), db_files(idle=True, at_ns=1_000_000_000)
    found = evidence(files_before=seen[:1], files_after=seen[:1], files_during=seen[1:])
    verdict = applied.RULE(claim_set(claim_db(weight=100)), found)[0]

    assert verdict.outcome is Outcome.FAILED
    assert "cpu.idle was 1" in verdict.reason
    assert "as read from 1.0 s" in verdict.reason


def test_without_a_weight_an_idle_cgroup_is_a_word() -> None:
    """Nothing promised a part of contended time: passed, and the reason and a measure say so."""
    verdict = judged(claim_db(shares=None, weight=None), db_files(idle=True))

    assert verdict.outcome is Outcome.PASSED
    assert "cpu.idle is 1" in verdict.reason
    assert verdict.measures["idle"] is True


@pytest.mark.parametrize(
    ("promised", "found", "outcome"),
    [
        (NO_LIMIT, NO_LIMIT, Outcome.PASSED),
        (NO_LIMIT, 4096, Outcome.FAILED),
        (1 << 30, NO_LIMIT, Outcome.PASSED),
        (1 << 30, 1 << 30, Outcome.PASSED),
        ((1 << 30) + 5, 1 << 30, Outcome.PASSED),
        (1 << 30, 1 << 29, Outcome.FAILED),
        (1 << 30, None, Outcome.PASSED),
        (None, 4096, Outcome.PASSED),
    ],
)
def test_memory_high(promised: int | None, found: int | None, outcome: Outcome) -> None:
    """No less than was promised, in whole pages; where nothing was promised, or no such file exists, nothing fails."""
    verdict = judged(claim_db(memory_high_bytes=promised), db_files(memory_high_bytes=found))

    assert verdict.outcome is outcome, verdict.reason
    if promised is None:
        assert "memory.high is 4096 bytes: beyond it its tasks are slowed down" in verdict.reason


@pytest.mark.parametrize(
    ("read", "word"),
    [
        ({"partition": "isolated"}, "cpuset.cpus.partition is isolated: the kernel balances no task"),
        ({"partition": "isolated invalid (Parent is not a partition root)"}, "Parent is not a partition root"),
        ({"partition": "root"}, ""),
        ({"uclamp_max_percent": 12.5}, "cpu.uclamp.max is 12.5 %"),
        ({"uclamp_min_percent": 50.0}, ""),
    ],
)
def test_what_nothing_promised_is_reported(read: dict[str, Any], word: str) -> None:
    """Passed, with a measure; with a word where it takes something from the tasks."""
    verdict = judged(claim_db(), db_files(**USUAL | read))

    assert verdict.outcome is Outcome.PASSED
    ((name, value),) = read.items()
    assert verdict.measures[name] == value
    assert word in verdict.reason
    assert bool(word) == (";" in verdict.reason)


def test_a_cgroup_above_limits_those_below() -> None:
    """What an ancestor says is named with it."""
    above = CgroupFiles(cgroup="/kubepods", at_ns=0, memory_high_bytes=4096)
    claim = claim_db()
    own = db_files()
    found = evidence(files_before=(own,), files_after=(own, above))
    verdict = applied.RULE(claim_set(claim), found)[0]

    assert claim.cgroup.startswith("/kubepods/")
    assert verdict.measures["memory_high_bytes_above"] == 4096
    assert "memory.high of /kubepods is 4096 bytes" in verdict.reason
