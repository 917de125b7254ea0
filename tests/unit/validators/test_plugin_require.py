"""A check of one's own is green only if something was decided: ``Judged.require``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_set, coverage, evidence, use
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome
from validators import plugin
from validators.plugin import Judged
from validators.registry import judge


def judged(found: Evidence) -> Judged:
    return Judged(evidence=found, verdicts=judge(claim_set(), found))


def test_what_was_kept_and_seen_is_green() -> None:
    """Verdicts that were skipped beside it change nothing."""
    seen = judged(evidence())

    assert any(verdict.outcome is Outcome.SKIPPED for verdict in seen.verdicts)
    seen.require()


@pytest.mark.parametrize("lost", [{"lost_events": 5}, {"missed_runs": 5}, {"map_full": 5}])
def test_undecided_is_red(lost: dict[str, int]) -> None:
    """Events were lost: nothing failed, and nothing is known."""
    seen = judged(evidence(coverage=coverage(**lost)))

    assert seen.failed == []
    with pytest.raises(AssertionError, match=r"undecided: cpuset-containment db: ") as caught:
        seen.require()
    assert len(str(caught.value).splitlines()) == len(seen.undecided)


def test_failed_is_red_and_comes_first() -> None:
    """With the rule and the subject."""
    row = replace(use("db", 0, switches=3, run_ns=41_200, samples=0), out_of_set_switches=3, out_of_set_ns=41_200)
    seen = judged(evidence(cpu_use=(*evidence().cpu_use, row), coverage=coverage(lost_events=5)))

    with pytest.raises(AssertionError, match=r"^failed: cpuset-containment db: ran on CPU 0 outside 2-3"):
        seen.require()


def test_nothing_judged_is_red() -> None:
    """No verdict at all, or only skipped ones."""
    seen = judged(evidence())
    skipped = tuple(verdict for verdict in seen.verdicts if verdict.outcome is Outcome.SKIPPED)

    for verdicts in ((), skipped):
        with pytest.raises(AssertionError, match="nothing was judged"):
            replace(seen, verdicts=verdicts).require()


def test_the_example_asks_for_it() -> None:
    """What is shown is what is copied."""
    example = (plugin.__doc__ or "").split("Every fixture")[0]

    assert "pinproof_observe(box, seconds=1.0).require()" in example
    assert "assert" not in example
