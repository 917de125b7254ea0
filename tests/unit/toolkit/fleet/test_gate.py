"""The gate over groups of runs: what can be compared, what is red, what is only suspect, and what cannot be known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.unit.toolkit.fleet.compared import AT, gate
from tests.unit.toolkit.fleet.sessions_builder import (
    CLASS,
    DELAY,
    PERIOD,
    RULE,
    SUBJECT,
    USAGE,
    edited,
    measured,
    observed,
    scenario,
    session,
)
from tests.unit.toolkit.report.results_builder import healthy, result_of
from toolkit.fleet.comparison import Asked, differences
from toolkit.fleet.observed import Observed, of_session
from toolkit.fleet.policy import EffectRule, Policy
from toolkit.fleet.values import BETTER, SAME, SUSPECT, UNDECIDED, WORSE, Comparison
from toolkit.model.conformance import ScenarioResult
from toolkit.model.identity import HardwareClass, Identity
from toolkit.model.session import SessionVerdict
from toolkit.model.verdict import Outcome, Verdict
from toolkit.session.index import gated_measures, session_of
from validators.registry import measure_of


def noisy(
    seed: int, ats: Sequence[int], node: str = "node1", spread: float = 0.005, **factors: float
) -> list[Observed]:
    """Sessions with some spread of their measures. :param factors: what these are multiplied by."""
    draw, spread = random.Random(seed), 0.005
    return [
        of_session(
            edited(
                session(at, node),
                {
                    USAGE: (1 + draw.gauss(0, spread)) * factors.get(USAGE, 1.0),
                    DELAY: max(0.2, 1 + draw.gauss(0, 20 * spread)) * factors.get(DELAY, 1.0),
                },
            )
        )
        for at in ats
    ]


def statuses(found: Comparison) -> dict[str, str]:
    return {one.measure: one.status for one in found.measures}


def differs(base: Sequence[Observed], new: Sequence[Observed]) -> list[str]:
    return [one.name for one in differences(Asked(base=base, new=new, kind_of=measure_of, at=AT))]


EVEN, ODD, LATER = range(0, 20, 2), range(1, 20, 2), range(100, 110)


def test_one_run_each_is_judged_by_its_verdicts() -> None:
    """Measures are shown, and it is said why they cannot be judged."""
    found = gate([observed(0)], [observed(1, "node1", measured(scenario(), usage_cpus=0.1))])

    assert (found.outcome, found.regressed) == (Outcome.PASSED, False)
    assert statuses(found) == {USAGE: UNDECIDED, DELAY: UNDECIDED, PERIOD: SAME}
    assert {one.reason for one in found.measures if one.status == UNDECIDED} == {
        "1 repeat cannot show it, 7 of each are needed"
    }


def failing(rule: str = RULE, outcome: Outcome = Outcome.FAILED) -> SessionVerdict:
    return SessionVerdict(rule=rule, subject=SUBJECT, outcome=outcome, reason="of a test")


LOST_CONTROL = replace(scenario().controls[0], outcome=Outcome.FAILED, reason="not noticed")


@pytest.mark.parametrize(
    ("new", "what"),
    [
        (observed(1, "node1", scenario(others=(failing(),), passed={RULE: 1, "evidence-health": 1})), RULE),
        (observed(1, "node1", scenario(others=(failing(outcome=Outcome.UNDECIDED),), passed={RULE: 1})), RULE),
        (observed(1, "node1", scenario(passed={RULE: 1, "evidence-health": 1})), RULE),
        (observed(1, "node1", scenario("another")), "scenario"),
        (observed(1, "node1", scenario(controls=())), "negative-control"),
        (observed(1, "node1", scenario(controls=(LOST_CONTROL,))), "negative-control"),
        (observed(1, "node1", scenario(), blind_spots={"interrupts are not seen": 1}), "blind spot"),
        (observed(1, "node1", measured(scenario(), period_us=10_000)), PERIOD),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_the_gate_can_fail(new: Observed, what: str) -> None:
    """What is worse is red without any repeats."""
    base = observed(0, "node1", scenario(), *([scenario("another")] if what == "scenario" else []))
    found = gate([base], [new])

    assert (found.outcome, found.regressed) == (Outcome.FAILED, True)
    rules = {one.rule for one in found.regressions}
    if what == "blind spot":
        assert found.new_blind_spots == ("node1: interrupts are not seen",)
    elif what == PERIOD:
        assert [one.reason for one in found.measures if one.status == WORSE] == ["10000 instead of 100000"]
    else:
        assert what in rules
    assert gate([base], [base]).outcome is Outcome.PASSED


def test_a_failure_of_both_is_known_but_not_passed() -> None:
    """``--require passed`` wants more than no regression."""
    bad = scenario(others=(failing(),), passed={RULE: 1, "evidence-health": 1})
    sides = [observed(0, "node1", bad)], [observed(1, "node1", bad)]

    assert gate(*sides).outcome is Outcome.PASSED
    found = gate(*sides, require_passed=True)
    assert (found.outcome, found.regressed) == (Outcome.FAILED, False)
    assert [(one.rule, one.subject) for one in found.required] == [(RULE, SUBJECT)]


@pytest.mark.parametrize(("bad", "red"), [(1, False), (4, False), (6, True), (7, True)])
def test_what_is_undecided_counts_where_it_is_more_than_chance(bad: int, red: bool) -> None:
    """A node that was busy once is no regression; it is said. One failure is a failure."""
    base = [observed(at) for at in range(0, 14, 2)]

    def new(outcome: Outcome) -> list[Observed]:
        worse = scenario(others=(failing(outcome=outcome),), passed={RULE: 1, "evidence-health": 1})
        return [observed(at, "node1", worse if at < 2 * bad else scenario()) for at in range(1, 14, 2)]

    found = gate(base, new(Outcome.UNDECIDED))
    assert bool(found.regressions) == red
    assert bool(found.other_changes) != red
    assert gate(base, new(Outcome.FAILED)).regressed


def test_other_machines_and_promises_cannot_be_compared() -> None:
    """What is not known is no reason."""
    base = [observed(0)]
    other = Identity(node="node1", hardware=HardwareClass(name="xeon", hash="f" * 16))

    assert differs(base, [observed(1)]) == []
    assert differs(base, [observed(1, "node1", identity=other)]) == ["hardware class"]
    assert differs(base, [observed(1, "node1", scenario(promises="others"))]) == ["promises"]
    assert differs(base, [observed(1, "node1", scenario("another"))]) == ["scenarios"]
    assert differs(base, [observed(1, "node1", identity=Identity(node="node1"))]) == []
    assert differs(base, [observed(1, "node1", kernel="6.18.0")]) == []
    environment = gate(base, [observed(1, "node1", kernel="6.18.0")]).environment
    assert [(one.name, one.before, one.after) for one in environment] == [("kernel", "6.12.0", "6.18.0")]


@pytest.mark.parametrize(
    ("factors", "status"),
    [({USAGE: 0.95}, SUSPECT), ({USAGE: 0.99}, SAME), ({USAGE: 1.1}, BETTER), ({}, SAME)],
    ids=str,
)
def test_a_measure_that_shifted(factors: dict[str, float], status: str) -> None:
    """Beyond the smallest effect, in the wrong direction: suspect. Better is no regression."""
    found = gate(noisy(1, EVEN), noisy(2, ODD, **factors))

    (usage,) = [one for one in found.measures if one.measure == USAGE]
    assert usage.status == status
    assert found.outcome is (Outcome.UNDECIDED if status == SUSPECT else Outcome.PASSED)
    assert usage.smallest == pytest.approx(0.03 * usage.base)
    if status == SUSPECT:
        assert usage.high is not None
        assert usage.high < -usage.smallest


def test_what_is_suspect_must_come_again() -> None:
    """Red where one more repeat of NEW shows it, too; nothing where it does not."""
    base, new = noisy(1, EVEN), noisy(2, ODD, usage_cpus=0.94)

    assert statuses(gate(base, new, confirm=noisy(3, [100], usage_cpus=0.94)))[USAGE] == WORSE
    assert gate(base, new, confirm=noisy(3, [100], usage_cpus=0.94)).regressed
    once = gate(base, new, confirm=noisy(3, [100]))
    assert (statuses(once)[USAGE], once.outcome) == (SAME, Outcome.PASSED)
    assert "did not come again" in next(one.reason for one in once.measures if one.measure == USAGE)


def test_all_of_base_before_all_of_new_shows_nothing() -> None:
    """A drift of the machine looks the same; the policy may know better."""
    base, new = noisy(1, range(10)), noisy(2, range(10, 20), usage_cpus=0.9)

    found = gate(base, new)
    assert statuses(found)[USAGE] == UNDECIDED
    assert statuses(gate(base, new, policy=Policy(interleaved=False)))[USAGE] == SUSPECT
    assert found.outcome is Outcome.PASSED
    assert gate(base, new, policy=Policy(measures="required")).outcome is Outcome.UNDECIDED


def test_a_policy_knows_other_effects() -> None:
    """A larger one, or none at all; the last that fits counts."""
    base, new = noisy(1, EVEN), noisy(2, ODD, usage_cpus=0.9)
    wide = EffectRule(measure=USAGE, relative=0.2)

    assert statuses(gate(base, new))[USAGE] == SUSPECT
    assert statuses(gate(base, new, policy=Policy(effects=(wide,))))[USAGE] == SAME
    none = Policy(effects=(wide, EffectRule(rule="quota-*", measure="usage_*", ignore=True)))
    assert USAGE not in statuses(gate(base, new, policy=none))


def test_what_could_not_be_judged_was_not_measured() -> None:
    """The numbers of an undecided verdict are those of a busy node."""
    busy = measured(scenario(others=(failing(outcome=Outcome.UNDECIDED),), passed={RULE: 1, "evidence-health": 1}))
    base = noisy(1, range(0, 40, 2))
    new = [*noisy(2, range(1, 30, 2)), *(observed(at, "node1", measured(busy, usage_cpus=0.2)) for at in (31, 33, 35))]
    found = gate(base, new)

    (usage,) = [one for one in found.measures if one.measure == USAGE]
    assert (usage.status, usage.new_repeats) == (SAME, 15)


NODES = [f"n{at:02}" for at in range(24)]


def fleet(seed: int, start: int, shifted: Callable[[str], float]) -> list[Observed]:
    """One session of each node, whose levels differ much more than what a rollout changes."""
    levels = random.Random(7)
    own = {node: levels.uniform(0.8, 1.2) for node in NODES}
    return [
        noisy(seed + at, [start + at], node, usage_cpus=own[node] * shifted(node))[0] for at, node in enumerate(NODES)
    ]


def test_a_rollout_compares_each_node_with_itself() -> None:
    """The node is the unit; nodes that were not rolled out say what changed anyway."""
    rolled = set(NODES[:16])
    before = fleet(100, 0, lambda node: 1.0)
    after = fleet(200, 100, lambda node: 0.93 if node in rolled else 1.0)
    again = fleet(300, 200, lambda node: 0.93 if node in rolled else 1.0)
    drift = fleet(200, 100, lambda node: 0.93)
    control = ["n1[6-9]", "n2*"]

    found = gate(before, after, control=control, confirm=again)
    (usage,) = [one for one in found.measures if one.measure == USAGE]
    assert (usage.status, usage.base_repeats, usage.node) == (WORSE, 16, CLASS.name)
    assert statuses(gate(before, drift, control=control))[USAGE] == SAME
    assert statuses(gate(before, drift))[USAGE] == SUSPECT
    few = gate(before[:5], after[:5])
    assert next(one.reason for one in few.measures if one.measure == USAGE).startswith("5 nodes cannot show it")


def test_a_node_that_is_lost_is_red_and_a_control_is_no_rollout() -> None:
    """What fails on a node that was not rolled out is told, and is not the rollout's."""
    before = [observed(at, node) for at, node in enumerate(NODES[:8])]
    after = [observed(100 + at, node) for at, node in enumerate(NODES[:8])]
    bad = scenario(others=(failing(),), passed={RULE: 1, "evidence-health": 1})

    lost = gate(before, after[1:])
    assert [(one.rule, one.subject) for one in lost.regressions] == [("node", "n00")]
    broken = [observed(100, "n00", bad), *after[1:]]
    assert [one.node for one in gate(before, broken).regressions] == ["n00"]
    told = gate(before, broken, control=["n00"])
    assert not told.regressed
    assert [one.reason for one in told.other_changes] == ["not rolled out: of a test"]


def test_equal_sides_are_rarely_suspect() -> None:
    """A/A: of 300 comparisons of sessions with 40 measures each, at most 1 % say anything at all; heavy tails, too."""
    draw = random.Random(5)

    def value(kind: int) -> float:
        return (
            1 + draw.gauss(0, 0.02)
            if kind == 0
            else draw.lognormvariate(0, 0.5)
            if kind == 1
            else 1 + 0.02 * draw.paretovariate(1.5)
        )

    def one(at: int) -> Observed:
        scenarios = [
            measured(
                scenario(f"s{number}"), usage_cpus=0.5 * value(number % 3), run_delay_ns=4e8 * value((number + 1) % 3)
            )
            for number in range(20)
        ]
        return observed(at, "node1", *scenarios)

    red = 0
    for _ in range(300):
        found = gate([one(at) for at in range(0, 14, 2)], [one(at) for at in range(1, 14, 2)])
        red += found.outcome is not Outcome.PASSED
    assert red <= 3


@pytest.mark.parametrize(("factors"), [{USAGE: 0.95}, {DELAY: 2.0}], ids=str)
def test_what_is_worse_is_found(factors: dict[str, float]) -> None:
    """Power: of 20 tries with seven runs each at least 19 are red."""
    red = 0
    for seed in range(20):
        base = noisy(1000 + seed, range(0, 14, 2))
        new = noisy(2000 + seed, range(1, 14, 2), **factors)
        red += gate(base, new, confirm=noisy(3000 + seed, range(100, 103), **factors)).regressed
    assert red >= 19


def test_the_same_runs_give_the_same_answer() -> None:
    """The bootstrap's seed is fixed."""
    base, new = noisy(1, EVEN), noisy(2, ODD, usage_cpus=0.95)
    assert gate(base, new) == gate(base, new)


def test_an_index_alone_is_held_against_runs_that_were_judged_again() -> None:
    """An index counts what passed, and does not name what was skipped: neither is news, in either direction."""
    verdicts = result_of(healthy()).verdicts
    assert {one.outcome for one in verdicts} >= {Outcome.PASSED, Outcome.SKIPPED}
    planned = Verdict(rule="admission", subject="a", outcome=Outcome.PASSED, reason="", measures={})
    result = ScenarioResult(
        name="s",
        title="s",
        catalogue=(),
        outcome=Outcome.PASSED,
        reason="",
        verdicts=(planned, *verdicts),
        promises="p",
    )
    index = session_of("x", [result], healthy().environment, started_at="", duration_s=1.0, complete=True)
    again = replace(result, verdicts=verdicts)
    alone, judged = of_session(index), of_session(index, judged={"s": (again, gated_measures(verdicts))})
    failed = replace(verdicts[0], outcome=Outcome.FAILED)
    worse = replace(again, verdicts=(failed, *verdicts[1:]))
    less = replace(again, verdicts=verdicts[1:])

    for base, new in ((alone, judged), (judged, alone), (judged, judged), (alone, alone)):
        found = gate([base], [new])
        assert (found.outcome, found.improvements, found.other_changes) == (Outcome.PASSED, (), ())
        assert found.unchanged > 1
    for bad in (worse, less):
        assert gate([alone], [of_session(index, judged={"s": (bad, {})})]).regressed
        assert gate([judged], [of_session(index, judged={"s": (bad, {})})]).regressed
