"""The rule ``weight-share``: shares of contended time at each level, both units, both formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import SECOND, bandwidth, claim_set, cpus, evidence, files, use
from toolkit.model.claims import Claim
from toolkit.model.evidence import (
    BandwidthUse,
    CgroupFiles,
    CpuUse,
    Culprit,
    CulpritClass,
    Delay,
    Evidence,
    Runtime,
    Transition,
    UsageBin,
)
from toolkit.model.verdict import Outcome, Verdict
from validators.queries.competition import scheduler_weight
from validators.rules.weight_share import RULE, runtime_formula

A, B = "/kubepods/poda/a", "/kubepods/podb/b"


def claim(name: str, cgroup: str, **changes: object) -> Claim:
    value = Claim(name=name, cgroup=cgroup, cpus=cpus("1"), weight=1, demand_cpus=1.0)
    return replace(value, **changes)  # type: ignore[arg-type]


def control(cgroup: str, weight: int | None, granted: str = "1", **changes: object) -> CgroupFiles:
    return files(cgroup, weight=weight, cpus_effective=cpus(granted) if granted else None, **changes)


def contest(
    used_a: float, used_b: float, weight_a: int = 200, weight_b: int = 100, granted: str = "1", **changes: object
) -> Evidence:
    """Pods ``a`` and ``b``, one container each, with these weights of the pods; ten seconds."""
    controls = (
        control("/kubepods/poda", weight_a, ""),
        control("/kubepods/podb", weight_b, ""),
        control(A, 39, granted),
        control(B, 39, granted),
    )
    rows: list[BandwidthUse] = []
    for name, own, used in (("a", A, used_a), ("b", B, used_b)):
        for level, cgroup in enumerate((own, own.rpartition("/")[0])):
            rows.append(bandwidth(name, cgroup, level, usage_ns=int(used * SECOND), bpf_usage_ns=int(used * SECOND)))
    value = evidence(files_before=controls, files_after=controls, bandwidth=tuple(rows), cpu_use=(), thread_masks=())
    return replace(value, **changes)  # type: ignore[arg-type]


def judged(found: Evidence, *claims: Claim) -> Verdict:
    """The verdict about ``a``, before the loss rule."""
    return RULE.check(claim_set(*(claims or (claim("a", A), claim("b", B)))), found)[0]


def test_two_to_one() -> None:
    """Two thirds and one third of one CPU, by weights 200 and 100, compared where the two paths part."""
    verdict = judged(contest(6.66, 3.33))

    assert verdict.outcome is Outcome.PASSED
    assert verdict.measures["poda_weight"] == 2048
    assert verdict.measures["poda_due_ns"] == pytest.approx(9.99 * SECOND * 2 / 3, rel=0.01)


def test_what_it_waited_for_is_said() -> None:
    """Whatever comes of it: behind what, and how long."""
    row = Delay(claim="a", cpu=1, wait_ns=38_000_000, longest_ns=9_000_000)
    other = Culprit(
        claim="a", cpu=1, owner=CulpritClass.CLAIM, name="b", turns=9, total_ns=38_000_000, longest_ns=9_000_000
    )
    verdict = judged(contest(6.66, 3.33, delays=(row,), culprits=(other,)))

    assert verdict.reason.endswith("; its tasks waited 38.0 ms in 10 s: 38.0 ms behind b")
    assert (verdict.measures["waited_ns"], verdict.measures["longest_wait_ns"]) == (38_000_000, 9_000_000)


def test_a_claim_that_ran_while_its_cpu_stood_still_is_ahead_by_that() -> None:
    """6.78 s are 120 ms too many; another CPU's standstill does not matter."""
    ahead = contest(6.78, 3.21)

    assert judged(ahead).outcome is Outcome.FAILED
    assert judged(replace(ahead, standstill_by_cpu_ns={1: SECOND // 5})).outcome is Outcome.PASSED
    assert judged(replace(ahead, standstill_by_cpu_ns={0: SECOND // 5})).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("used", "outcome"), [(6.62, "passed"), (6.71, "passed"), (6.55, "failed"), (6.78, "failed"), (5.0, "failed")]
)
def test_the_lag_is_the_boundary(used: float, outcome: str) -> None:
    """On one CPU: 2 * (24 ms + 4 ms) of ten seconds. The negative control: equal parts at weights 2:1."""
    assert judged(contest(used, 10 - used)).outcome.value == outcome


@pytest.mark.parametrize(
    ("idle", "outcome", "word"), [(A, "failed", "cpu.idle of"), (B, "undecided", "what others leave")]
)
def test_an_idle_cgroup_has_no_part(idle: str, outcome: str, word: str) -> None:
    """Of one that is idle the promise is broken; beside a rival that is idle nothing is divided."""
    found = contest(6.66, 3.33)
    pod = idle.rpartition("/")[0] if idle == B else idle
    controls = tuple(replace(one, idle=one.cgroup == pod) for one in found.files_after)
    verdict = judged(replace(found, files_before=controls, files_after=controls))

    assert verdict.outcome.value == outcome
    assert word in verdict.reason


def bins(halves_a: tuple[float, float], halves_b: tuple[float, float]) -> tuple[UsageBin, ...]:
    return tuple(
        UsageBin(claim=name, start_at_ns=half * 5 * SECOND, length_ns=5 * SECOND, usage_ns=int(used * SECOND))
        for name, halves in (("a", halves_a), ("b", halves_b))
        for half, used in enumerate(halves)
    )


@pytest.mark.parametrize(
    ("used", "halves", "outcome"),
    [
        (13.3, (6.65, 6.65), "passed"),
        (12.2, (6.1, 6.1), "passed"),
        (10.0, (5.0, 5.0), "failed"),
        (17.0, (8.5, 8.5), "failed"),
        (10.0, (7.0, 3.0), "undecided"),
        (10.0, (9.0, 1.0), "undecided"),
        (10.0, None, "undecided"),
    ],
)
def test_on_two_cpus_the_balancer_has_its_say(used: float, halves: tuple[float, float] | None, outcome: str) -> None:
    """Odds may be off by a quarter; more fails only if both halves of the window show it."""
    slots = () if halves is None else bins(halves, (10 - halves[0], 10 - halves[1]))
    found = contest(used, 20 - used, granted="0-1", usage_bins=slots, cpu_use=by_cpu((used / 2, used / 2)))

    assert judged(found, *BOTH).outcome.value == outcome


BOTH = [claim(name, path, cpus=cpus("0-1"), demand_cpus=2.0) for name, path in (("a", A), ("b", B))]


def by_cpu(used_a: tuple[float, ...]) -> tuple[CpuUse, ...]:
    """Rows of the ledger: what ``a`` had of ten seconds of each CPU, ``b`` the rest."""
    parts = {"a": used_a, "b": tuple(10 - used for used in used_a)}
    return tuple(
        use(name, cpu, run_ns=round(used * SECOND)) for name, part in parts.items() for cpu, used in enumerate(part)
    )


@pytest.mark.parametrize(
    ("used", "outcome", "said"),
    [
        ((6.63, 0.28), "undecided", "more than its part on CPU 0 and less than its part on CPU 1"),
        ((6.3, 2.2), "undecided", "more than its part on CPU 0 and less than its part on CPU 1"),
        ((5.0, 1.0), "undecided", "but not on each CPU: less than its part on CPU 1"),
        ((3.0, 3.0), "failed", "and less than its part on each CPU"),
        ((3.0, 0.0), "failed", "and less than its part on each CPU"),
        ((9.9, 7.0), "failed", "and more than its part on each CPU"),
    ],
    ids=("nice-19", "six-and-one-pinned", "not-known", "deprived", "deprived-most-on-one", "took-more"),
)
def test_nice_and_pinned_threads_within_are_the_groups_own(used: tuple[float, float], outcome: str, said: str) -> None:
    """Equal weights: the first two are by the kernel's formula; less or more on each CPU no load of its own does."""
    total = sum(used)
    slots = bins((total / 2, total / 2), (10 - total / 2, 10 - total / 2))
    found = contest(total, 20 - total, 100, 100, granted="0-1", usage_bins=slots, cpu_use=by_cpu(used))

    verdict = judged(found, *BOTH)

    assert verdict.outcome.value == outcome
    assert said in verdict.reason


def test_where_is_not_known() -> None:
    """Rows that do not add up to the cgroup's time say nothing of CPUs."""
    slots = bins((3, 3), (7, 7))
    found = contest(6, 14, 100, 100, granted="0-1", usage_bins=slots, cpu_use=by_cpu((3, 2)))

    assert judged(found, *BOTH).outcome is Outcome.UNDECIDED
    assert "on which CPU is not known" in judged(found, *BOTH).reason


def test_a_claim_without_work_for_each_cpu_does_not_compete() -> None:
    """One busy thread on two CPUs cannot take the share of the second."""
    found = contest(10, 10, granted="0-1", usage_bins=bins((5, 5), (5, 5)))
    one = [claim(name, path, cpus=cpus("0-1"), demand_cpus=1.0) for name, path in (("a", A), ("b", B))]

    assert judged(found, *one).outcome is Outcome.UNDECIDED
    assert "had no work for each of its CPUs" in judged(found, *one).reason


@pytest.mark.parametrize(("weight", "scheduler"), [(1, 10), (7, 72), (100, 1024), (10_000, 102_400)])
def test_a_weight_in_the_schedulers_unit(weight: int, scheduler: int) -> None:
    """To the nearest, as ``sched_weight_from_cgroup``; 1024 is the normal one."""
    assert scheduler_weight(files(A, weight=weight)) == scheduler


def test_which_reading_of_a_cgroup_counts_is_no_chance() -> None:
    """Two claims below one cgroup bring its counters along, each as read for it: the order of the file is none."""
    found = contest(6.66, 3.33)
    other = replace(found.bandwidth[1], claim="z", usage_ns=9 * SECOND)
    ways = [replace(found, bandwidth=rows) for rows in ((*found.bandwidth, other), (other, *found.bandwidth))]

    assert [judged(one).measures["poda_usage_ns"] for one in ways] == [6_660_000_000] * 2


def test_shares_of_v1() -> None:
    """cpu.shares are the scheduler's own unit."""
    found = contest(6.66, 3.33)
    old = tuple(
        replace(entry, weight=None, shares={200: 2048, 100: 1024, 39: 1024}[entry.weight or 0])
        for entry in found.files_before
    )

    assert judged(replace(found, files_before=old, files_after=old)).outcome is Outcome.PASSED


def test_nothing_promised_is_skipped() -> None:
    """No claim with a weight; or no other claim anywhere."""
    assert judged(contest(5, 5), claim("a", A, weight=None)).outcome is Outcome.SKIPPED
    assert judged(contest(5, 5), claim("a", A)).outcome is Outcome.SKIPPED


def without(found: Evidence, name: str, cgroup: str) -> Evidence:
    kept = tuple(row for row in getattr(found, name) if row.cgroup != cgroup)
    return replace(found, **{name: kept})


GOOD = contest(6.66, 3.33)
CHANGE = Transition(claim="b", what="cpus", start_at_ns=1, end_at_ns=2, cpus_before=cpus("0"), cpus_after=cpus("1"))


@pytest.mark.parametrize(
    "found",
    [
        without(GOOD, "files_after", "/kubepods/podb"),
        without(GOOD, "files_before", "/kubepods/poda"),
        without(GOOD, "files_before", B),
        without(GOOD, "bandwidth", "/kubepods/podb"),
        replace(GOOD, files_after=contest(1, 1, weight_b=99).files_after),
        replace(GOOD, bandwidth=tuple(replace(row, nr_throttled=1) for row in GOOD.bandwidth)),
        replace(GOOD, files_after=contest(1, 1, granted="2").files_after),
        replace(GOOD, transitions=(CHANGE,)),
        replace(GOOD, environment=replace(GOOD.environment, sched_ext="enabled")),
    ],
    ids=range(9),
)
def test_missing_or_shifting_evidence_is_undecided(found: Evidence) -> None:
    """Weights, CPU time, sets: not read, changed meanwhile, or throttled."""
    assert judged(found).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("changes", [{"demand_cpus": 0.5}, {"demand_cpus": None}])
def test_a_claim_that_had_too_little_to_do_does_not_compete(changes: dict[str, object]) -> None:
    """Without work for its CPU all the time a sibling's part says nothing; even a wrong one fails no claim."""
    assert judged(contest(9, 1), claim("a", A), claim("b", B, **changes)).outcome is Outcome.UNDECIDED


def test_a_claim_that_did_not_wait_is_skipped() -> None:
    """On a node where demand is unknown, a claim that hardly waited was not divided with any other."""
    idle = claim("a", A, demand_cpus=None), claim("b", B, demand_cpus=None)

    assert judged(replace(GOOD, run_delay_ns={"a": 5_000_000}), *idle).outcome is Outcome.SKIPPED
    assert judged(replace(GOOD, run_delay_ns={"a": 500_000_000}), *idle).outcome is Outcome.UNDECIDED


def test_others_on_the_cpus() -> None:
    """Where another task took a tenth of the CPU a deviation is not the scheduler's doing for certain."""
    assert judged(contest(4.5, 4.5)).outcome is Outcome.UNDECIDED
    assert judged(contest(6.0, 3.0)).outcome is Outcome.PASSED


def test_a_short_window_is_undecided() -> None:
    """When half or twice the share would be allowed nothing passes."""
    assert judged(contest(0.02, 0.01)).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("name", "version", "formula"),
    [
        ("runc", "1.3.1", "linear"),
        ("runc", "1.3.2", "logarithmic"),
        ("runc", "1.3.2+ds1-1~bpo12", "logarithmic"),
        ("runc", "v1.4.0-rc.1", "logarithmic"),
        ("runc", "1.4.0", "logarithmic"),
        ("runc", "1.2.9", "linear"),
        ("runc", "", None),
        ("runc", "1.1.5+ds1", "linear"),
        ("crun", "1.22", "linear"),
        ("crun", "1.23", "logarithmic"),
        ("crun", "1.8.1", "linear"),
        ("crun", "1.23.1", "logarithmic"),
        ("crun", "1.22.0.0.0.9-4f3a", "linear"),
        ("cgroupfs", "", "linear"),
        ("other", "0.5", None),
        ("runc", "unknown", None),
    ],
)
def test_which_formula_a_runtime_uses(name: str, version: str, formula: str | None) -> None:
    """By the releases that changed it."""
    assert runtime_formula(Runtime(name=name, version=version)) == formula


@pytest.mark.parametrize(
    ("runtime", "weight", "outcome"),
    [
        (Runtime(name="runc", version="1.1.5"), 39, "passed"),
        (Runtime(name="runc", version="1.1.5"), 100, "failed"),
        (Runtime(name="runc", version="1.4.0"), 100, "passed"),
        (Runtime(name="crun", version="1.23"), 39, "failed"),
        (Runtime(name="cgroupfs"), 100, "failed"),
        (None, 100, "passed"),
        (Runtime(name="crun", version="1.23"), 77, "passed"),
    ],
)
def test_the_right_formula(runtime: Runtime | None, weight: int, outcome: str) -> None:
    """1024 shares are 39 or 100 by the runtime's version; another weight is the business of ``applied``."""
    found = contest(6.66, 3.33, runtime=runtime)
    after = tuple(replace(entry, weight=weight) if entry.cgroup == A else entry for entry in found.files_after)
    found = replace(found, files_before=after, files_after=after)

    assert judged(found, claim("a", A, weight=None, shares=1024), claim("b", B)).outcome.value == outcome
