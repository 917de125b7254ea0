"""A followed container that a program beside the kubelet has pinned: its word against the cgroup, through a window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_set
from tests.unit.validators.live_layers_builder import BE, Word, node, said
from toolkit.model.layers import Layer
from toolkit.model.verdict import Verdict
from validators.rules import layers_agree

OWN = replace(BE, pinned_by="NRI balloons")


def judged(plugin: list[Word], cgroup: list[Word]) -> Verdict:
    """Judge it where neither state file nor runtime says anything."""
    seen = node([], [], cgroup, layers=tuple(said(Layer.PLUGIN, *plugin)))
    verdict, *_ = layers_agree.RULE.check(claim_set(OWN, reconcile_period_s=10.0), seen)
    return verdict


def test_what_it_says_and_the_cgroup_has_agrees() -> None:
    verdict = judged([(0, "2-3"), (29, "2-3")], [(0, "2-3"), (29, "2-3")])
    assert (verdict.outcome, verdict.reason) == ("passed", "plugin, cgroup, observed agree")


@pytest.mark.parametrize("cgroup", ["0-3", "2", ""])
def test_another_set_fails(cgroup: str) -> None:
    verdict = judged([(0, "2-3"), (29, "2-3")], [(0, "2-3"), (8, cgroup), (29, cgroup)])
    assert verdict.outcome == "failed"
    assert (
        f"NRI balloons and cgroup differ from 8.0 s on: CPUs 2-3, said for 29.0 s, against {cgroup or 'none'}"
        in verdict.reason
    )


@pytest.mark.parametrize("before_s", [-40, -6])
def test_a_word_of_before_a_short_window_is_compared(before_s: int) -> None:
    """A window shorter than the bound: the word has stood for longer, so the cgroup has had its time."""
    verdict = judged([(before_s, "2-3"), (3, "2-3")], [(0, "0-3"), (3, "0-3")])
    assert verdict.outcome == "failed"
    assert "NRI balloons and cgroup differ" in verdict.reason


def test_what_differs_within_the_bound_is_said() -> None:
    """It is no fault yet, and they do not agree."""
    verdict = judged([(0, "2-3"), (3, "2-3")], [(0, "0-3"), (3, "0-3")])
    assert verdict.outcome == "passed"
    assert "CPUs 2-3, said for 3.0 s, against 0-3; it may follow within 5.0 s" in verdict.reason


def test_a_cgroup_follows_within_a_bound() -> None:
    """The program saves its decision before the runtime has written it."""
    verdict = judged([(0, "2-3"), (9, "2-3"), (10, "2"), (29, "2")], [(0, "2-3"), (11, "2"), (29, "2")])
    assert verdict.outcome == "passed"
