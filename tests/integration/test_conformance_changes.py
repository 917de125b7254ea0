"""Scenarios in which limits change or pods come and go while others run, on the real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conformance_runs import run
from toolkit.model.verdict import Outcome
from toolkit.session.engine.prepared import Prepared
from toolkit.session.planning.resizing import BEFORE
from toolkit.store import load_run

pytestmark = [pytest.mark.integration, pytest.mark.beside]


@pytest.mark.parametrize(("name", "quotas"), [("resize-quota", (40_000, 80_000)), ("resize-shrink", (80_000, 40_000))])
def test_quotas_are_judged_before_and_after_a_resize(
    name: str, quotas: tuple[int, int], tmp_path: Path, kept: Prepared
) -> None:
    """Two windows: each with the quota that was in force, read back from the cgroup; the pod's in the same order."""
    result = run(name, tmp_path, kept)

    runs = [load_run(Path(result.run) / BEFORE.replace(" ", "-")), load_run(Path(result.run))]
    for one, quota in zip(runs, quotas, strict=True):
        claim = next(claim for claim in one.claims.claims if claim.name == "load/main")
        files = [row.quota_us for row in one.evidence.files_after if row.cgroup == claim.cgroup]
        assert (claim.quota_us, files) == (quota, [quota])
    assert {v.outcome for v in result.verdicts if v.rule == "applied"} == {Outcome.PASSED}


def test_a_pool_shrinks_before_an_owner_comes_and_grows_when_it_is_gone(tmp_path: Path, kept: Prepared) -> None:
    """Two changes of the shared container's CPUs, and the owner's whole life between them."""
    result = run("pool-shrinks-and-grows", tmp_path, kept)

    found = load_run(Path(result.run)).evidence.transitions
    web = [change for change in found if change.claim == "web/app" and change.what == "mask-change"]
    life = [change for change in found if change.claim == "db/main"]
    assert len(web) == 2
    assert web[0].cpus_after == web[1].cpus_before
    assert web[0].cpus_before == web[1].cpus_after
    assert life != []
    assert all(web[0].end_at_ns <= change.start_at_ns <= web[1].start_at_ns for change in life)
