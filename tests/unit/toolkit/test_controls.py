"""What counts as noticed when a promise was broken on purpose."""

from __future__ import annotations

import pytest

from toolkit.model.scenario import NegativeControl
from toolkit.model.verdict import Outcome, Verdict
from toolkit.session.conformance import judge_control
from validators.placement.groups import VIRTUAL_MACHINE

CONTROL = NegativeControl(rule="llc-alignment", fault="widen-cpuset", target="db/main")


def said(outcome: Outcome, reason: str = "", rule: str = "llc-alignment", subject: str = "db/main") -> Verdict:
    return Verdict(rule=rule, subject=subject, outcome=outcome, reason=reason, measures={})


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (said(Outcome.FAILED, "two caches"), Outcome.PASSED),
        (said(Outcome.PASSED), Outcome.FAILED),
        (said(Outcome.UNDECIDED, "not read"), Outcome.UNDECIDED),
        (said(Outcome.SKIPPED, "it asked for no alignment"), Outcome.FAILED),
        (said(Outcome.SKIPPED, f"{VIRTUAL_MACHINE} (kvm): its cache ids prove nothing"), Outcome.SKIPPED),
        (said(Outcome.FAILED, "another rule", rule="applied"), Outcome.FAILED),
        (said(Outcome.FAILED, "another container", subject="web/app"), Outcome.FAILED),
    ],
)
def test_only_the_named_rule_about_the_named_subject_counts(verdict: Verdict, outcome: Outcome) -> None:
    """A rule that is silent has noticed nothing, unless it is about hardware that a virtual machine does not have."""
    assert judge_control(CONTROL, [verdict], "").outcome is outcome


def test_silence_is_not_notice() -> None:
    """No verdict at all is a control that was missed."""
    assert judge_control(CONTROL, [], "").outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [(said(Outcome.PASSED), Outcome.UNDECIDED), (said(Outcome.FAILED, "two caches"), Outcome.PASSED)],
)
def test_what_never_came_to_show_is_not_missed(verdict: Verdict, outcome: Outcome) -> None:
    """A planted task that got no turn broke nothing: that is no evidence against the rule; what was noticed counts."""
    found = judge_control(CONTROL, [verdict], "", hidden="the planted task made 0 of 2 rounds")
    assert found.outcome is outcome
