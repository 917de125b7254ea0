"""The rule ``noise``: classes, the two bounds, budgets, and what was not observed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.alignment_builder import db
from tests.unit.validators.evidence_builder import WINDOW_NS, claim_set, claim_web, intruder
from tests.unit.validators.machine_builder import machine
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.interrupts import IrqKind, IrqUse
from toolkit.model.verdict import Outcome, Verdict
from validators.rules.noise import RULE

MS = 1_000_000
SECONDS = WINDOW_NS // 1_000_000_000


def task(owner: OwnerClass, ns: int, cpu: int = 2, tid: int = 9) -> Intruder:
    return intruder(owner, cpu, tid=tid, comm="noisy", cgroup="/", switches=3, total_ns=ns, longest_ns=ns)


def irq(ns: int, kind: IrqKind = IrqKind.HARD, cpu: int = 2) -> IrqUse:
    return IrqUse(cpu=cpu, kind=kind, name="eth0", vector=30, count=5, ns=ns)


def judged(found: Evidence, budget: int | None = MS, cpu: int = 2) -> Verdict:
    """``budget``: 1 ms a second, 10 ms in the window."""
    verdicts = RULE(claim_set(db(), noise_budget_ns_per_s=budget), found)
    return next(verdict for verdict in verdicts if verdict.subject == f"cpu {cpu}")


def test_a_quiet_cpu() -> None:
    """Every exclusive CPU has a line of its own; nothing on it passes."""
    verdicts = RULE(claim_set(db(), noise_budget_ns_per_s=0), machine(irq_use=()))

    assert [(verdict.subject, verdict.outcome) for verdict in verdicts] == [
        ("cpu 2", Outcome.PASSED),
        ("cpu 6", Outcome.PASSED),
    ]


@pytest.mark.parametrize("name", ["irq_use", "steal_by_cpu_ns", "standstill_by_cpu_ns"])
def test_what_was_not_observed_is_not_within_the_budget(name: str) -> None:
    """No budget passes on a part of what takes a CPU's time; what was seen can still be too much."""
    noisy: dict[str, Any] = {"intruders": (task(OwnerClass.SYSTEM, 11 * MS),)}
    assert judged(replace(machine(irq_use=()), **{name: None})).outcome is Outcome.UNDECIDED
    assert judged(replace(machine(irq_use=()), **{name: None}), budget=None).outcome is Outcome.PASSED
    assert judged(replace(machine(irq_use=(), **noisy), **{name: None})).outcome is Outcome.FAILED


def test_no_exclusive_cpu_is_skipped() -> None:
    """Shared CPUs have no noise: they have no owner."""
    assert RULE(claim_set(claim_web()), machine())[0].outcome is Outcome.SKIPPED


@pytest.mark.parametrize(
    "owner", [OwnerClass.SYSTEM, OwnerClass.KTHREAD, OwnerClass.PERCPU_KTHREAD, OwnerClass.UNKNOWN]
)
@pytest.mark.parametrize(("ns", "outcome"), [(10 * MS, "passed"), (10 * MS + 1, "failed")])
def test_tasks(owner: OwnerClass, ns: int, outcome: str) -> None:
    """The negative control: a task that runs one nanosecond more than the budget allows, named."""
    verdict = judged(machine(irq_use=(), intruders=(task(owner, ns),)))

    assert verdict.outcome.value == outcome
    assert [row.comm for row in verdict.offenders] == (["noisy"] if outcome == "failed" else [])
    assert judged(machine(irq_use=(), intruders=(task(owner, ns, cpu=0),))).outcome is Outcome.PASSED


@pytest.mark.parametrize("kind", IrqKind)
def test_interrupts(kind: IrqKind) -> None:
    """The negative control: a device whose interrupts take more than the budget, named by source."""
    verdict = judged(machine(irq_use=(irq(11 * MS, kind),)))

    assert verdict.outcome is Outcome.FAILED
    assert verdict.measures["worst_irq"] == f"eth0 ({kind} 30)"
    assert judged(machine(irq_use=(irq(10 * MS, kind),))).outcome is Outcome.PASSED


def test_steal() -> None:
    """What the hypervisor took of this CPU counts, of another does not."""
    assert judged(machine(irq_use=(), steal_by_cpu_ns={2: 11 * MS})).outcome is Outcome.FAILED
    assert judged(machine(irq_use=(), steal_by_cpu_ns={3: 11 * MS})).outcome is Outcome.PASSED


def test_a_cpu_that_stood_still_may_have_been_in_firmware() -> None:
    """What had it is not said: not proof of noise, and no proof of quiet; steal that was told is not counted twice."""
    found = machine(irq_use=(), standstill_by_cpu_ns={2: 11 * MS})
    verdict = judged(found)

    assert verdict.outcome is Outcome.UNDECIDED
    assert "11.000 ms without a timer interrupt" in verdict.reason
    assert judged(found, cpu=6).outcome is Outcome.PASSED
    both = machine(irq_use=(), standstill_by_cpu_ns={2: 10 * MS}, steal_by_cpu_ns={2: 10 * MS})
    assert judged(both).outcome is Outcome.PASSED


def test_between_the_bounds_is_undecided() -> None:
    """6 ms of tasks and 6 ms of interrupts are 6 to 12 ms."""
    found = machine(irq_use=(irq(6 * MS),), intruders=(task(OwnerClass.SYSTEM, 6 * MS),))
    verdict = judged(found)

    assert verdict.outcome is Outcome.UNDECIDED
    assert (verdict.measures["noise_low_ns_per_s"], verdict.measures["noise_high_ns_per_s"]) == (600_000, 1_200_000)


def test_interrupts_not_observed() -> None:
    """Within the budget is not known then; above it is; and the measures say so."""
    few, many = task(OwnerClass.SYSTEM, MS), task(OwnerClass.SYSTEM, 20 * MS)

    assert judged(machine(intruders=(few,))).outcome is Outcome.UNDECIDED
    assert judged(machine(intruders=(many,))).outcome is Outcome.FAILED
    measured = judged(machine(intruders=(many,)), budget=None)
    assert measured.outcome is Outcome.PASSED
    assert measured.measures["irqs_observed"] is False
    assert "interrupts not observed" in measured.reason


def test_what_does_not_count() -> None:
    """pinproof's own tasks are told apart; pods are another rule's."""
    rows = (task(OwnerClass.TOOLKIT, 50 * MS), task(OwnerClass.FOREIGN_POD, 50 * MS, tid=8))
    verdict = judged(machine(irq_use=(), intruders=rows))

    assert verdict.outcome is Outcome.PASSED
    assert verdict.measures["toolkit_ns"] == 50 * MS


def test_a_virtual_machine_is_skipped() -> None:
    """A guest's noise is its hypervisor's; it is measured all the same."""
    found = machine(virtualization="kvm", irq_use=(), intruders=(task(OwnerClass.SYSTEM, 50 * MS),))
    verdict = judged(found)

    assert verdict.outcome is Outcome.SKIPPED
    assert verdict.measures["system_ns"] == 50 * MS


def test_no_window_is_undecided() -> None:
    """Nothing observed is nothing judged."""
    assert judged(machine(irq_use=(), duration_ns=0)).outcome is Outcome.UNDECIDED
