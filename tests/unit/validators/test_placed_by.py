"""What let a thread run where its claim may not is named: by its mask, its set, or a move; no verdict changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
    mask,
    use,
    web_files,
)
from toolkit.model.actions import AffinityChange, CgroupMove
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Offender, Outcome, Verdict
from validators.rules import affinity_mask, cpuset_containment, layers_agree

DB = "/kubepods/poda/db"
SEEN = 4 * SECOND


def affinity(at_s: float, allowed: str, comm: str, **changes: Any) -> AffinityChange:
    row = AffinityChange(
        at_ns=round(at_s * SECOND),
        tid=100,
        claim="db",
        cpus=cpus(allowed),
        errno=0,
        caller_tid=9,
        caller_comm=comm,
        caller_claim="",
        caller_pid=9,
    )
    return replace(row, **changes)


def move(at_s: float, comm: str, **changes: Any) -> CgroupMove:
    row = CgroupMove(
        at_ns=round(at_s * SECOND),
        tid=100,
        comm="db",
        whole_process=True,
        from_claim="db",
        to_claim="db",
        hierarchy="cpuset",
        cgroup="/",
        writer_tid=8,
        writer_comm=comm,
        pid=100,
        writer_pid=8,
    )
    return replace(row, **changes)


def outside(**changes: Any) -> Evidence:
    """Thread 100 of db runs on CPU 0 from 4 s on, and its mask is read wide then."""
    rows = (use("db", 2), use("db", 3), use("db", 0, out_of_set_switches=1, out_of_set_ns=SECOND))
    offender = Offender(
        claim="db", tid=100, comm="spin", cpu=0, first_at_ns=SEEN, total_ns=SECOND, longest_ns=SECOND, switches=1
    )
    masks = (
        mask("db", "2-3", comm="spin", last_at_ns=round(3.9 * SECOND)),
        mask("db", "0-3", comm="spin", first_at_ns=SEEN),
        mask("web", "0-1", pid=7, tid=7),
    )
    values = {"cpu_use": rows, "offenders": (offender,), "thread_masks": masks, "affinity_changes": ()} | changes
    return evidence(**values)


def judged(found: Evidence) -> tuple[Verdict, Verdict]:
    """What containment and masks say of db."""
    claims = claim_set(claim_db(), claim_web())
    return cpuset_containment.check(claims, found)[0], affinity_mask.check(claims, found)[0]


CULPRIT = "by culprit (pid 9) at 01:00:03.990 UTC"
WIDE = f"the mask of THREAD was set to CPUs 0-3 {CULPRIT}"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"affinity_changes": (affinity(3.99, "0-3", "culprit"),)},
            WIDE,
        ),
        (
            {
                "affinity_changes": (
                    affinity(3.99, "0-3", "culprit"),
                    affinity(3.995, "0-3", "again"),
                    affinity(3.996, "0-1", "refused", errno=22),
                    affinity(4.005, "2-3", "healer"),
                    affinity(3.997, "0-3", "other", tid=101),
                )
            },
            WIDE,
        ),
        (
            {"affinity_changes": (affinity(1, "0", "first"), affinity(2, "2", "home"), affinity(4.001, "0", "itself"))},
            "the mask of THREAD was set to CPU 0 by itself (pid 9) at 01:00:04.001 UTC",
        ),
        (
            {"affinity_changes": (affinity(1, "0", "first"),), "cgroup_moves": (move(3.99, "mover"),)},
            "THREAD was moved to / (cpuset) by mover (pid 8) at 01:00:03.990 UTC",
        ),
        (
            {
                "control_writes": (
                    control_write(1, DB, "2-3", comm="same"),
                    control_write(3.99, DB, "0-3", comm="culprit", pid=9, tid=9),
                    control_write(3.995, DB, "0-3", comm="again"),
                    control_write(5, DB, "2-3", comm="healer"),
                )
            },
            f"cpuset.cpus of db was set to 0-3 {CULPRIT}",
        ),
        ({}, "which task let THREAD run there is not known: no task was seen to set its mask"),
    ],
    ids=("mask", "not-one-that-repeated-or-healed", "again", "move", "set", "none"),
)
def test_the_author_of_a_place(changes: dict[str, Any], said: str) -> None:
    """The last that let it there, and of equal ones the first."""
    contained, masks = judged(outside(**changes))

    assert (contained.outcome, masks.outcome) == (Outcome.FAILED, Outcome.FAILED)
    assert said.replace("THREAD", "thread 100 (spin)") in contained.reason
    assert "again (" not in contained.reason
    assert "healer" not in contained.reason
    if "first" not in str(changes):
        assert said.replace("THREAD", "thread 100") in masks.reason


def test_the_option_that_tells() -> None:
    """Where this kernel does not say what sets masks, the verdict says which option does; old evidence nothing."""
    spot = "changes of affinity masks are not observed: no trampolines; watch --trace-syscalls sees it at the cost"
    old = outside(affinity_changes=None)
    found = replace(old, coverage=replace(old.coverage, blind_spots=(spot,)))

    assert "not known: this kernel does not tell, `watch --trace-syscalls` does" in judged(found)[0].reason
    assert "not known" not in judged(old)[0].reason


def test_layers_end_with_the_author() -> None:
    """A cgroup that was wrong all the time, and threads that hold more than it grants."""
    wide = db_files(cpus=cpus("0-3"), cpus_effective=cpus("0-3"))
    stands = evidence(
        files_before=(wide, web_files()),
        files_after=(replace(wide, at_ns=WINDOW_NS), web_files()),
        control_writes=(control_write(-5, DB, "0-3", comm="culprit"),),
    )
    (wrong, *_) = layers_agree.check(claim_set(claim_db()), stands)
    (held, *_) = layers_agree.check(
        claim_set(claim_db()), outside(affinity_changes=(affinity(3.99, "0-3", "culprit"),))
    )

    assert "cpuset.cpus of db was written by culprit (pid 4711) at 00:59:55.000 UTC" in wrong.reason
    assert CULPRIT in held.reason
