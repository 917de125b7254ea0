"""A container that had gone before the window opened has no verdict in it; one that was there has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web, evidence, use
from toolkit.model.evidence import CgroupFiles, Evidence, Transition
from toolkit.model.evidence.following import Following
from validators.registry import judge

GONE = Transition(claim="web", what="claim-removed", start_at_ns=5, end_at_ns=6, cause="toolkit")


def node(**changes: object) -> Evidence:
    """``web`` was removed early in the window, and its cgroup had no file when that opened."""
    seen = evidence()
    files = tuple(one for one in seen.files_before if one.cgroup != claim_web().cgroup)
    value = replace(
        seen,
        following=Following(source="kubelet", readings=5),
        transitions=(GONE,),
        files_before=(*files, CgroupFiles(cgroup=claim_web().cgroup, at_ns=0)),
        cpu_use=tuple(row for row in seen.cpu_use if row.claim != "web"),
        thread_masks=tuple(mask for mask in seen.thread_masks if mask.claim != "web"),
        bandwidth=tuple(row for row in seen.bandwidth if row.claim != "web"),
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def subjects(seen: Evidence) -> set[str]:
    return {verdict.subject for verdict in judge(claim_set(claim_db(), claim_web()), seen)}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"files_before": evidence().files_before},
        {"transitions": (replace(GONE, what="cgroup-gone", start_at_ns=4, end_at_ns=4), GONE)},
    ],
    ids=["gone", "going: its CPU time could not be read any more", "going: it was in the v2 hierarchy still"],
)
def test_what_had_gone_has_no_verdict(changes: dict[str, object]) -> None:
    """The other claim has."""
    assert "web" not in subjects(node(**changes))
    assert "db" in subjects(node(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"following": None},
        {"transitions": ()},
        {"transitions": (replace(GONE, what="claim-added"), GONE)},
        {"transitions": (replace(GONE, what="cgroup-gone"), replace(GONE, what="cgroup-made"), GONE)},
        {"files_before": evidence().files_before, "bandwidth": evidence().bandwidth},
        {"cpu_use": (*evidence().cpu_use, use("web", 3))},
    ],
    ids=["not followed", "not removed", "came", "made again", "there", "ran"],
)
def test_what_was_there_is_judged(changes: dict[str, object]) -> None:
    """Each sign by itself keeps its verdicts."""
    assert "web" in subjects(node(**changes))
