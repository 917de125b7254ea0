"""Noise on CPUs that were exclusive for a part of the window: what was lost in that part, and the budget of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, claim_web, cpus, intruder, use
from tests.unit.validators.owners_builder import DB, GROW, PLAIN, SHRINK, SMALL, guest, moved, seen, verdict
from toolkit.model.claim_changes import in_force
from toolkit.model.claims import Claim, ClaimSet, Isolation, SubjectKind
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.interrupts import IrqKind, IrqUse
from toolkit.model.verdict import Verdict
from validators.registry import rule_named

BUDGET = replace(PLAIN, noise_budget_ns_per_s=1_000_000)


def noise(*rows: Intruder, cpu: int = 3, events: dict[str, Any] = SHRINK, **more: Any) -> Verdict:
    claims = replace(SMALL, noise_budget_ns_per_s=BUDGET.noise_budget_ns_per_s) if events is GROW else BUDGET
    found = seen(events, **{"irq_use": (), "intruders": rows, **more})
    return verdict(found, "noise", f"cpu {cpu}", claims)


@pytest.mark.parametrize(
    ("events", "at_s", "ms", "outcome"),
    [
        (SHRINK, 1, 5, "passed"),
        (SHRINK, 1, 5.001, "failed"),
        (SHRINK, 7, 50, "passed"),
        (SHRINK, 4.999, 50, "passed"),
        (SHRINK, 4.99, 50, "undecided"),
        (GROW, 7, 4.9, "passed"),
        (GROW, 7, 4.901, "failed"),
        (GROW, 1, 50, "undecided"),
        (GROW, 1, 4_200, "failed"),
    ],
)
def test_noise_on_a_cpu_counts_while_it_is_exclusive(
    events: dict[str, Any], at_s: float, ms: float, outcome: str
) -> None:
    """A millisecond a second: five while db has CPU 3 until 5 s, 4.9 where it has it from 5.1 s on."""
    found = noise(guest(3, at_s, ms / 1000, OwnerClass.SYSTEM), events=events)

    assert found.outcome == outcome, found.reason
    if outcome == "passed":
        assert "s of 10 s in which it was exclusive, the budget is 1000000 ns a second" in found.reason


def test_interrupts_and_steal_of_a_part() -> None:
    """Interrupts are recorded while a CPU is exclusive; steal is counted all the time."""
    irq = IrqUse(cpu=3, kind=IrqKind.HARD, name="eth0", vector=30, count=5, ns=6_000_000)
    assert noise(irq_use=(irq,)).outcome == "failed"
    assert noise(irq_use=(replace(irq, ns=5_000_000),)).outcome == "passed"
    assert noise(steal_by_cpu_ns={3: 6_000_000}).outcome == "undecided"
    assert noise(steal_by_cpu_ns={3: 5_006_000_000}).outcome == "failed"


def test_a_moment_may_have_a_seconds_noise() -> None:
    """db has CPU 3 for the last 0.4 s: 0.9 ms there may be within the budget of the second, 1.1 ms are not."""
    late = moved(9.5, "2", "2-3", replace(DB, cpus=cpus("2")))
    budget = replace(SMALL, noise_budget_ns_per_s=1_000_000)
    for ms, outcome in ((0.4, "passed"), (0.9, "undecided"), (1.1, "failed")):
        row = guest(3, 9.7, ms / 1000, OwnerClass.SYSTEM)
        assert verdict(seen(late, irq_use=(), intruders=(row,)), "noise", "cpu 3", budget).outcome == outcome


def test_a_cpu_of_the_whole_window_has_the_whole_budget() -> None:
    """CPU 2 is db's throughout, in one life or two that follow at once; one that passes from owner to owner, too."""
    row = guest(2, 1, 0.01, OwnerClass.SYSTEM)
    found, longest = noise(row, cpu=2), "(at most 0.005 ms at a time, guest (system))"
    said = f"10.000 ms of tasks {longest}, 0.000 ms of interrupts in 10 s, the budget is 1000000 ns a second"
    assert found.reason == said
    assert "exclusive_ns" not in found.measures
    heir = replace(claim_web(name="heir", cgroup="/kubepods/podh/c", pod="h"), isolation=Isolation.CONTAINER)
    gets = moved(5.1, "0", "3", replace(heir, cpus=cpus("0")))
    shared = replace(BUDGET, claims=(*BUDGET.claims, replace(heir, cpus=cpus("0"))))
    row = guest(3, 1, 0.0098, OwnerClass.SYSTEM)
    both = seen(SHRINK, gets, irq_use=(), intruders=(row,))
    said = rule_named("noise").check(in_force(shared, both.claim_changes), both)
    (found,) = (one for one in said if one.subject == "cpu 3")
    assert (found.outcome, found.measures["exclusive_ns"]) == ("passed", round(9.8 * SECOND)), found.reason


PAUSE = Claim(name="x/(sandbox)", cgroup="/kubepods/podx/s", pod="x", kind=SubjectKind.SANDBOX, cpus=cpus("0-3"))
CONMON = Claim(name="a/(conmon)", cgroup="/kubepods/poda/m", pod="a", kind=SubjectKind.HELPER, cpus=cpus("0-3"))


def checked(claims: ClaimSet, found: Evidence) -> Verdict:
    """Judge CPU 3, whatever else is doubted of made evidence."""
    claims = in_force(claims, found.claim_changes)
    return next(one for one in rule_named("noise").check(claims, found) if one.subject == "cpu 3")


@pytest.mark.parametrize("helper", [PAUSE, CONMON])
@pytest.mark.parametrize(
    ("events", "ms", "outcome"),
    [
        (None, 10, "passed"),
        (None, 10.001, "failed"),
        (SHRINK, 5, "passed"),
        (SHRINK, 5.001, "undecided"),
        (SHRINK, 5_006, "failed"),
    ],
    ids=["budget", "more", "half", "either half", "both halves"],
)
def test_what_helpers_take_is_noise(helper: Claim, events: dict[str, Any] | None, ms: float, outcome: str) -> None:
    """A pause sandbox of any pod, or a monitor: no rule about pods fails for it, and the owner loses the time. When in
    the window it ran the ledger does not say.
    """
    row = use(helper.name, 3, run_ns=round(ms * 1_000_000), samples=0)
    claims = replace(BUDGET, claims=(*BUDGET.claims, helper))
    rows = (use("db", 2), use("db", 3), use("web", 0), row)
    found = checked(claims, seen(*([events] if events else []), irq_use=(), cpu_use=rows))

    assert found.outcome == outcome, found.reason
    assert found.measures["sandbox_ns"] == row.run_ns if events is None else True
    if outcome == "failed":
        assert [row.claim for row in found.offenders] == [helper.name]


def test_a_helper_that_was_not_watched_yet_is_noise_too() -> None:
    """Its task has no claim in the ledger, and its cgroup is a helper's; one of a container is for exclusive-cpus."""
    task = intruder(OwnerClass.CLAIM, cpu=3, cgroup=PAUSE.cgroup, first_at_ns=0, total_ns=SECOND)
    claims = replace(BUDGET, claims=(*BUDGET.claims, PAUSE))
    assert checked(claims, seen(irq_use=(), intruders=(task,))).outcome == "failed"
    other = replace(task, cgroup=BUDGET.claims[1].cgroup)
    assert checked(claims, seen(irq_use=(), intruders=(other,))).outcome == "passed"
