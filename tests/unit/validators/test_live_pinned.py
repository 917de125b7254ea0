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


@pytest.mark.parametrize(
    ("plugin", "cgroup", "outcome", "why"),
    [
        ([(0, "2-3"), (3, "2-3")], [(0, "0-3")], "undecided", "said for 3.0 s, against 0-3, or longer: the window"),
        ([(0, "0-3"), (26, "2-3"), (29, "2-3")], [(0, "0-3")], "passed", "5.0 s, which the window's end left unseen"),
        ([(0, "2-3"), (27, "2-3")], [(0, "2-3"), (28, "0-3")], "undecided", "not read again together"),
        ([(0, "2-3"), (28.5, "2-3")], [(0, "2-3"), (28, "0-3")], "undecided", "not read again together"),
        ([(0, "2-3"), (27, "2-3"), (31, "0-3")], [(0, "2-3"), (28, "0-3")], "passed", ""),
        ([(0, "2-3"), (27, "2-3"), (31, "1")], [(0, "2-3"), (28, "0-3")], "undecided", "not read again together"),
    ],
    ids=["since when is not known", "just said", "not read since", "read at once", "said after it", "said of another"],
)
def test_what_is_open_when_the_window_ends_is_never_said_to_agree(
    plugin: list[Word], cgroup: list[Word], outcome: str, why: str
) -> None:
    """They differ, for less than a cgroup may take to follow its program's word, or for less than two readings show."""
    verdict = judged(plugin, cgroup)
    assert (verdict.outcome, why in verdict.reason) == (outcome, True), verdict.reason
    assert verdict.reason.endswith("agree") is (why == "")


def test_a_cgroup_follows_within_a_bound() -> None:
    """The program saves its decision before the runtime has written it."""
    verdict = judged([(0, "2-3"), (9, "2-3"), (10, "2"), (29, "2")], [(0, "2-3"), (11, "2"), (29, "2")])
    assert verdict.outcome == "passed"
