"""Results for tests of the renderings: a healthy run, and one that went wrong in several ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.validators.evidence_builder import (
    SECOND,
    claim_db,
    claim_set,
    claim_web,
    coverage,
    cpus,
    evidence,
    intruder,
    use,
)
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.result import Result, make_result
from toolkit.model.verdict import Offender
from validators.registry import judge

CLAIMS = claim_set(claim_db(), claim_web(cpus=cpus("1")), reserved_cpus=cpus("0"), strict_reservation=True)
EVIL = "\x1b[31mred\x00\r\n\u202e</failure>\ud800"


def healthy(**changes: Any) -> Evidence:
    rows = (use("db", 2), use("db", 3), use("web", 1, run_ns=5 * SECOND, samples=500))
    noise = intruder(OwnerClass.KTHREAD, tid=30, comm="kworker/2:1", cgroup="/", switches=30, total_ns=11_200_000)
    web = [replace(entry, cpus=cpus("1"), cpus_effective=cpus("1")) for entry in evidence().files_before[1:]]
    files = (evidence().files_before[0], *web)
    masks = tuple(
        replace(mask, cpus_allowed=cpus("1")) if mask.claim == "web" else mask for mask in evidence().thread_masks
    )
    values: dict[str, Any] = {
        "cpu_use": rows,
        "intruders": (noise,),
        "files_before": files,
        "files_after": files,
        "thread_masks": masks,
    }
    return replace(evidence(), **{**values, **changes})


def broken() -> Evidence:
    """An escape by a thread with a hostile name, and a blind spot."""
    row = use("db", 0, switches=3, run_ns=41_200, samples=0)
    row = replace(row, out_of_set_switches=3, out_of_set_ns=41_200, out_of_set_longest_ns=30_100)
    offender = Offender(
        claim="db", tid=4711, comm=EVIL, cpu=0, first_at_ns=1_200_000, total_ns=41_200, longest_ns=30_100, switches=3
    )
    return healthy(
        cpu_use=(*healthy().cpu_use, row),
        offenders=(offender,),
        coverage=coverage(lost_events=3, blind_spots=("CPUs 4-7 are nohz_full " + "and so on " * 20,)),
    )


def result_of(found: Evidence) -> Result:
    return make_result(found, judge(CLAIMS, found), unknown=None)
