"""A gate's policy: what is refused, and what a waiver does until when."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.fleet.compared import AT, gate
from tests.unit.toolkit.fleet.sessions_builder import CLASS, RULE, SUBJECT, observed, scenario
from toolkit.errors import InputError
from toolkit.fleet.policy import MAX_WAIVER_DAYS, Policy, Waiver, parse_policy
from toolkit.model.session import SessionVerdict
from toolkit.model.verdict import Outcome
from toolkit.report.comparison_junit import render_junit
from toolkit.report.comparison_markdown import render_markdown
from toolkit.report.comparison_table import render_comparison

HEAD = "apiVersion: pinproof/v1\nkind: GatePolicy\n"
WAIVER = """
waivers:
  - rule: quota-throttling
    subject: "load/*"
    class: "epyc-*"
    reason: known since the last BIOS
    issue: https://example.org/7
    owner: team-node
    until: 2026-12-31
"""
FULL = f"""{HEAD}repeats: 9
measures: required
effects:
  - {{rule: quota-throttling, measure: usage_cpus, relative: 0.02, absolute: 0.001}}
  - {{measure: "noise_*", ignore: true}}
{WAIVER}"""


def waiver(**changes: Any) -> Waiver:
    values: dict[str, Any] = {
        "rule": RULE,
        "reason": "known",
        "issue": "I-7",
        "owner": "us",
        "until": AT.date() + timedelta(days=30),
    }
    return Waiver(**{**values, **changes})


def test_a_policy_is_read() -> None:
    """All of its parts."""
    policy = parse_policy(FULL, "policy.yaml", AT)

    assert (policy.repeats, policy.measures, len(policy.effects)) == (9, "required", 2)
    assert policy.waivers[0].cls == "epyc-*"
    assert policy.waivers[0].ends == datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "0 YAML documents"),
        ("- 1", "a list"),
        ("kind: GatePolicy", "apiVersion"),
        (HEAD + "repeats: 3", "repeats"),
        (HEAD + "repeat: 9", "unknown key repeat"),
        (HEAD + "effects: [{rule: noise}]", "measure"),
        (HEAD + "effects: [{measure: x, relative: .inf}]", "relative"),
        (HEAD + "effects: [{measure: x, relative: -1}]", "relative"),
        (HEAD + "waivers: [{rule: x, reason: y, issue: z, owner: w}]", "until"),
        (HEAD + WAIVER.replace("2026-12-31", "2027-12-31"), f"at most {MAX_WAIVER_DAYS} days ahead"),
        (HEAD + WAIVER.replace("2026-12-31", "2026-12-31T10:00:00"), "a date"),
        (HEAD + WAIVER.replace("2026-12-31", "soon"), "until"),
        (HEAD + WAIVER.replace("owner: team-node", 'owner: ""'), "owner"),
        (HEAD + WAIVER.replace("class", "cls"), "unknown key cls"),
        (HEAD + "waivers: 7", "waivers"),
        (HEAD + "waivers: [7]", "waivers"),
    ],
)
def test_a_wrong_policy_is_one_line(text: str, found: str) -> None:
    """It says where, and what is expected."""
    with pytest.raises(InputError) as error:
        parse_policy(text, "policy.yaml", AT)
    assert str(error.value).startswith("policy.yaml")
    assert found in str(error.value)
    assert "\n" not in str(error.value)


def failed() -> Any:
    bad = SessionVerdict(rule=RULE, subject=SUBJECT, outcome=Outcome.FAILED, reason="too much")
    return [observed(0)], [observed(1, "node1", scenario(others=(bad,), passed={RULE: 1, "evidence-health": 1}))]


def test_what_is_waived_stays_visible() -> None:
    """It does not count, and stands in every rendering with its reason, owner and day."""
    found = gate(*failed(), policy=Policy(waivers=(waiver(subject="load/*", cls="epyc-*"),)))

    assert (found.outcome, found.regressed, found.regressions) == (Outcome.PASSED, False, ())
    assert [one.waived for one in found.waived] == ["known (I-7, us, until 2026-12-29)"]
    assert [(one.state, one.used) for one in found.waivers] == [("used", 1)]
    for render in (render_comparison, render_markdown, render_junit):
        assert "known (I-7, us" in " ".join(render(found).replace("\\", "").split())
    assert "1 waived" in render_comparison(found)


@pytest.mark.parametrize(
    "changes",
    [{"rule": "noise"}, {"subject": "web/*"}, {"scenario": "weights"}, {"cls": "xeon-*"}, {"node": "node2"}],
    ids=str,
)
def test_a_waiver_of_something_else_is_unused(changes: dict[str, str]) -> None:
    """It is reported, and waives nothing."""
    found = gate(*failed(), policy=Policy(waivers=(waiver(**changes),)))

    assert found.regressed
    assert [one.state for one in found.waivers] == ["unused"]
    assert "unused" in render_comparison(found)
    assert CLASS.name.startswith("epyc-")


@pytest.mark.parametrize(
    ("at", "holds"),
    [
        (datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), True),
        (datetime(2027, 1, 1, tzinfo=UTC), False),
        (datetime.fromisoformat("2027-01-01T00:30:00+02:00"), True),
        (datetime.fromisoformat("2026-12-31T23:30:00-02:00"), False),
    ],
    ids=str,
)
def test_a_waiver_ends_with_its_day_in_utc(at: datetime, holds: bool) -> None:
    """Wherever the gate runs; one that has ended is reported."""
    found = gate(*failed(), at=at, policy=Policy(waivers=(waiver(until=date(2026, 12, 31)),)))

    assert found.regressed != holds
    assert [one.state for one in found.waivers] == ["used" if holds else "expired"]


@pytest.mark.parametrize("rule", ["scenario", "blind-spot", "negative-control"])
def test_findings_without_a_rule_are_waived_by_a_word(rule: str) -> None:
    """A lost scenario, a blind spot, a control that is not noticed."""
    base, new = observed(0, "node1", scenario(), scenario("b")), observed(1, "node1", scenario(), scenario("b"))
    if rule == "scenario":
        new = observed(1)
    elif rule == "blind-spot":
        new = observed(1, "node1", scenario(), scenario("b"), blind_spots={"dark": 1})
    else:
        new = observed(1, "node1", scenario(controls=()), scenario("b"))

    assert gate([base], [new]).regressed
    assert not gate([base], [new], policy=Policy(waivers=(waiver(rule=rule),))).regressed


def test_the_page_shows_a_policy_that_is_one() -> None:
    """The example of docs/gate.md."""
    page = (Path(__file__).resolve().parents[4] / "docs" / "gate.md").read_text()
    policy = parse_policy(page.split("```yaml\n")[1].split("```")[0], "docs/gate.md", AT)
    assert (policy.repeats, len(policy.effects), len(policy.waivers)) == (9, 2, 1)
