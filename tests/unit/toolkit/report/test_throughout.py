"""The sentence of many windows: sets and times that are true of every one of them, and nothing of the first alone."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.validators.evidence_builder import SECOND, claim_db, claim_set, cpus, evidence, intruder, use
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import CpuUse, Evidence, Intruder, OwnerClass
from toolkit.model.result import Result, make_result
from toolkit.model.verdict import Measure, Outcome, Verdict
from toolkit.report.summary import summary
from toolkit.session.windows.sums import KEPT_WINDOWS, Sums
from toolkit.store import reread
from toolkit.timeline.ran import asked
from validators.rules import cpuset_containment, exclusive_cpus, reserved_cpus

WEB = Claim(name="web", cgroup="/kubepods/podb/web", pod="b", cpus=cpus("0"))
CLAIMS = claim_set(claim_db(), WEB)
KERNEL = intruder(OwnerClass.KTHREAD, cpu=2, first_at_ns=0, total_ns=600_000)
SYSTEM = intruder(OwnerClass.SYSTEM, cpu=2, first_at_ns=0, total_ns=4 * SECOND)


def window(*rows: CpuUse, claims: ClaimSet = CLAIMS, intruders: tuple[Intruder, ...] = ()) -> tuple[ClaimSet, Evidence]:
    return claims, evidence(cpu_use=(use("db", 2), *rows), intruders=intruders)


def result_of(*windows: tuple[ClaimSet, Evidence]) -> Result:
    sums = Sums()
    for number, (claims, found) in enumerate(windows, start=1):
        rules = (cpuset_containment, reserved_cpus, exclusive_cpus)
        verdicts = tuple(one for rule in rules for one in rule.check(claims, found))
        sums.add(number, make_result(found, verdicts, unknown=None), asked(found).rows)
    return reread(sums.result())


def said(*windows: tuple[ClaimSet, Evidence]) -> str:
    return summary(result_of(*windows))


def test_times_are_those_of_all_windows() -> None:
    """Kernel threads in the first, a system task in the second: both are named, with their times."""
    text = said(window(intruders=(KERNEL,)), window(intruders=(SYSTEM, KERNEL)))

    assert (
        "CPUs 2-3, while exclusive, hosted only owners, 1.2 ms of kernel threads and 4000.0 ms of other tasks "
        "without a claim" in text
    )
    assert "No task of `db` ran outside CPUs 2-3, " in text
    assert "windows that judged" not in text.split("`web`")[0]


def test_a_set_that_changed_is_not_named() -> None:
    """A pool that grew: what holds for all windows is that it kept to what it had."""
    wide = claim_set(claim_db(cpus=cpus("2")), replace(WEB, cpus=cpus("0-1")))
    text = said(window(use("web", 0)), window(use("web", 1), claims=wide))

    assert "no task of `web` ran outside its CPUs (which changed)" in text
    assert "the CPUs of `db` (which changed), while exclusive, hosted only owners" in text
    assert "CPU 0" not in text
    assert "2-3" not in text


def test_transitions_of_every_window_count() -> None:
    """The second window's, too; and on reserved CPUs."""
    moving = use("web", 1, switches=1, run_ns=900_000, samples=0, transition_switches=1, transition_ns=900_000)
    strict = replace(CLAIMS, reserved_cpus=cpus("1"), strict_reservation=True)
    text = said(window(use("web", 0), claims=strict), window(use("web", 0), moving, claims=strict))

    assert "no task of `web` ran outside CPU 0 (but 0.9 ms in transition)" in text
    assert "no workload ran on reserved CPU 1 (but 0.9 ms before present sets held)" in text


def test_a_claim_of_one_window() -> None:
    """One that came later is not said to have been contained all the time."""
    text = said(window(claims=claim_set(claim_db())), window(use("web", 0)))

    assert "no task of `web` ran outside CPU 0 in the 1 of 2 windows that judged it" in text


def test_many_claims() -> None:
    """Counted, with the windows that judged them and the sums of what was excused."""
    claims = [claim_db(name=f"c{i}", cgroup=f"/k/c{i}", pod=f"p{i}", cpus=cpus(str(i))) for i in range(6)]
    rows = tuple(use(claim.name, i) for i, claim in enumerate(claims))
    all_, five = ((claim_set(*some), evidence(cpu_use=rows[: len(some)])) for some in (claims, claims[:5]))
    text = said(all_, five, all_)

    assert "No task of 6 claims ran outside its CPUs in the 2 to 3 of 3 windows that judged them" in text
    assert "the exclusive CPUs of 6 claims hosted no workload but their owners' in the 2 to 3 of 3" in text


def test_a_quota() -> None:
    """Periods of all windows; no rate, which is another one in each."""

    def held(reason: str, throttled: int) -> Verdict:
        measures: dict[str, Measure] = {"nr_periods": 100, "nr_throttled": throttled}
        return Verdict(rule="quota-throttling", subject="web", outcome=Outcome.PASSED, reason=reason, measures=measures)

    sums = Sums()
    for at, one in enumerate((held("throttled to 0.5 CPUs (measured 0.49)", 90), held("never", 0)), start=1):
        sums.add(at, make_result(evidence(), (one,), unknown=None), asked(evidence()).rows)
    text = summary(sums.result())
    assert "`web` kept to its quota, throttled in 90 of 200 periods." in text
    assert "0.49" not in text


def test_a_result_from_before_the_sums_were_kept() -> None:
    """Nothing is known of all windows but that each passed: no set and no time is said."""
    new = result_of(window(intruders=(KERNEL,)), window(intruders=(SYSTEM,)))
    old = tuple(
        replace(
            one, measures={k: v for k, v in one.measures.items() if k not in ("windows_cpus", "windows_kthread_ns")}
        )
        for one in new.verdicts
    )
    text = summary(replace(new, verdicts=old))

    assert "`cpuset-containment` passed for `db`, `exclusive-cpus` passed for `db`." in text
    assert "hosted" not in text


def test_many_windows_say_what_matters_of_many_pods() -> None:
    """One pod of ninety is no sentence: how many of how many were contained, what came and went, and what failed."""
    pods = [claim_db(name=f"p{i}/app", cgroup=f"/k/p{i}", pod=f"p{i}", cpus=cpus("0")) for i in range(90)]

    def of(*names: str, outcome: Outcome = Outcome.PASSED) -> tuple[Verdict, ...]:
        return tuple(
            Verdict(rule="cpuset-containment", subject=name, outcome=outcome, reason="r", measures={"cpus": "0"})
            for name in names
        )

    def summed(count: int, *each: tuple[Verdict, ...]) -> str:
        sums = Sums()
        for at in range(count):
            verdicts = each[min(at, len(each) - 1)]
            sums.add(at + 1, make_result(evidence(), verdicts, unknown=None), ())
        return summary(reread(sums.result()))

    names = [claim.name for claim in pods]
    one = summed(2, (*of(names[0]), *of(*names[1:], outcome=Outcome.UNDECIDED)))
    assert "Each of 2 windows is undecided." in one
    assert "No task of 1 of 90 claims ran outside its CPUs." in one
    assert "p0/app" not in one

    gone = summed(KEPT_WINDOWS + 2, of(*names), (*of(names[0]), *of(names[1], outcome=Outcome.FAILED)))
    assert f"Of {KEPT_WINDOWS + 2} windows 1 passed and {KEPT_WINDOWS + 1} failed." in gone
    assert f"Failed: `p1/app` (cpuset-containment, {KEPT_WINDOWS + 1} windows)." in gone
    assert "No task of 89 of 90 claims ran outside its CPUs (88 came and went)." in gone
