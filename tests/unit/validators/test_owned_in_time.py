"""CPUs that a claim owned for a part of the window: each is judged for that part (exclusive-cpus, smt-alignment)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seeds import examples
from tests.unit.validators.evidence_builder import SECOND, claim_web, cpus, db_files, use
from tests.unit.validators.owners_builder import (
    DB,
    GROW,
    PLAIN,
    SHRINK,
    SMALL,
    added,
    change,
    guest,
    moved,
    removed,
    seen,
    verdict,
)
from toolkit.model.claim_changes import ClaimChange, in_force
from toolkit.model.claims import Alignment, Isolation
from toolkit.model.evidence import CpuUse, Transition
from toolkit.model.held import FOREVER_NS
from toolkit.model.verdict import Offender
from validators.intruders import ownership, possession
from validators.registry import judge
from validators.rules import exclusive_cpus


def reborn(after: str = "1") -> dict[str, Any]:
    """Another life from 5 s on, after the first ended at 3 s; as the observer writes it down."""
    again = change("mask-change", 5, end_at_ns=5 * SECOND + 9, cpus_before=cpus("2-3"), cpus_after=cpus(after))
    now = ClaimChange(at_ns=5 * SECOND + 10, claim=replace(DB, cpus=cpus(after)))
    return {"transitions": (removed(3), added(5, after), again), "claim_changes": (now,)}


@pytest.mark.parametrize(
    ("cpu", "at_s", "outcome"),
    [(3, 1, "failed"), (2, 1, "failed"), (2, 7, "failed"), (3, 5.05, "passed"), (3, 7, "passed"), (1, 1, "passed")],
)
def test_a_cpu_that_is_given_up_was_exclusive_until_then(cpu: int, at_s: float, outcome: str) -> None:
    """db shrinks from 2-3 to 2 at 5 s: what is on CPU 3 before breaks it, what comes with it or later does not."""
    found = verdict(seen(SHRINK, after="2", intruders=(guest(cpu, at_s),)))

    assert found.outcome == outcome, found.reason
    assert "CPUs 2-3, from 5.0 s on 2" in found.reason
    assert found.measures["cpus"] == "2-3, from 5.0 s on 2"


@pytest.mark.parametrize(
    ("at_s", "total_s", "outcome"),
    [(6, 0.5, "failed"), (1, 0.5, "undecided"), (1, 4.1, "undecided"), (1, 4.2, "failed"), (5.05, 0.01, "undecided")],
)
def test_a_cpu_that_is_received_is_exclusive_from_then_on(at_s: float, total_s: float, outcome: str) -> None:
    """db grows from 2 to 2-3 from 5 to 5.1 s: what was there before may have gone, unless it ran for too long."""
    found = verdict(seen(GROW, intruders=(guest(3, at_s, total_s),)), claims=SMALL)

    assert found.outcome == outcome, found.reason


@pytest.mark.parametrize(
    ("cpu", "at_s", "outcome"),
    [(3, 1, "failed"), (3, 4, "passed"), (3, 7, "passed"), (1, 1, "undecided"), (1, 7, "failed")],
)
def test_a_life_on_other_cpus_leaves_the_first_ones_judged(cpu: int, at_s: float, outcome: str) -> None:
    """On 2-3 until 3 s, on 1 from 5 s on."""
    found = verdict(seen(reborn(), after="1", intruders=(guest(cpu, at_s),)))

    assert found.outcome == outcome, found.reason
    if outcome != "undecided":
        assert "CPUs 2-3, from 3.0 s on none, from 5.0 s on 1" in found.reason


def test_a_life_on_the_same_cpus_is_named_as_one() -> None:
    """A restart changes no set."""
    found = verdict(seen({"transitions": (removed(3), added(5)), "claim_changes": ()}))

    assert (found.outcome, found.reason) == ("passed", "CPUs 2-3 hosted only `db`")
    assert found.measures["cpus"] == "2-3"


def test_grown_in_one_window_and_shrunk_in_the_next() -> None:
    """Each window begins with what the one before ended with; the third knows nothing of CPU 3 any more."""
    for at_s, outcome in ((4, "undecided"), (6, "failed")):
        assert verdict(seen(GROW, intruders=(guest(3, at_s),)), claims=SMALL).outcome == outcome
    for at_s, outcome in ((0, "failed"), (4, "failed"), (6, "passed")):
        assert verdict(seen(SHRINK, after="2", intruders=(guest(3, at_s),))).outcome == outcome
    assert verdict(seen(intruders=(guest(3, 1),), after="2"), claims=SMALL).outcome == "passed"


def pool(*rows: CpuUse, offenders: tuple[Offender, ...] = (), **more: Any) -> dict[str, Any]:
    return {"cpu_use": (use("db", 2), use("db", 3), use("web", 0), *rows), "offenders": offenders, **more}


def test_a_pool_that_gets_the_cpu_breaks_nothing() -> None:
    """db gives CPU 3 up at 5 s, web's pool has it from 6 s on; or db is born again elsewhere, and the pool has 2-3."""
    web = PLAIN.claims[1]
    gets = moved(6, "0", "0,3", web)
    found = verdict(seen(SHRINK, gets, after="2", **pool(use("web", 3))))
    assert found.outcome == "passed", found.reason
    assert (
        "CPUs 2-3, from 5.0 s on 2 hosted only `db` and 1000.0 ms of `web` while the CPU was not the own"
        in found.reason
    )
    found = verdict(seen(reborn(), moved(6, "0", "0,2-3", web), after="1", **pool(use("web", 2))))
    assert found.outcome == "passed", found.reason
    soon = moved(4.9, "0", "0,3", web)
    assert verdict(seen(soon, SHRINK, after="2", **pool(use("web", 3)))).outcome == "undecided"


@pytest.mark.parametrize(("at_s", "outcome"), [(1, "failed"), (7, "passed")])
def test_another_claims_task_is_dated_where_its_stay_is_known(at_s: float, outcome: str) -> None:
    """web never had CPU 3: outside its own set, and foreign to db while db had it."""
    out = {"switches": 1, "run_ns": 900, "samples": 0, "out_of_set_switches": 1, "out_of_set_ns": 900}
    at_ns = round(at_s * SECOND)
    stay = Offender(claim="web", tid=9, comm="w", cpu=3, first_at_ns=at_ns, total_ns=900, longest_ns=900, switches=1)
    stray = pool(use("web", 3, **out), offenders=(stay,))
    assert verdict(seen(SHRINK, after="2", **stray)).outcome == outcome
    assert verdict(seen(SHRINK, after="2", **pool(use("web", 3, **out)))).outcome == "undecided"
    grown = verdict(seen(GROW, **stray), claims=SMALL)
    assert grown.outcome == ("undecided" if at_s < 5 else "failed")
    for last_s, left in ((at_s, "passed" if at_s < 5 else "failed"), (8, "failed")):
        whole = {**stray, "offenders": (replace(stay, last_at_ns=round(last_s * SECOND) + 900),)}
        assert verdict(seen(GROW, **whole), claims=SMALL).outcome == left


def test_a_container_of_the_pod_may_share_what_it_shared() -> None:
    """Both have the pod's CPUs 2-3, then both have 2 alone, side in another life."""
    db = replace(DB, isolation=Isolation.POD)
    side = replace(db, name="side", cgroup="/kubepods/poda/side")
    ends = change("claim-removed", 4, claim="side", cpus_before=cpus("2-3"))
    begins = change("claim-added", 5, claim="side", cpus_after=cpus("2"))
    later = ClaimChange(at_ns=5 * SECOND + 1, claim=replace(side, cpus=cpus("2")))
    shrinks = moved(5, "2-3", "2", db)
    lives = {"transitions": (ends, begins), "claim_changes": (later,)}
    pod = replace(PLAIN, claims=(db, PLAIN.claims[1], side))
    found = verdict(seen(shrinks, lives, after="2", **pool(use("side", 3))), claims=pod)
    assert found.outcome == "passed", found.reason


def test_pool_claims_are_not_judged() -> None:
    """web's pool shrinks and grows: nothing of it is exclusive."""
    web = PLAIN.claims[1]
    found = seen(moved(5, "0", "0-1", web), intruders=(guest(0, 1), guest(1, 7)))
    assert [v.subject for v in judge(PLAIN, found) if v.rule == "exclusive-cpus"] == ["db"]
    assert verdict(found).reason == "CPUs 2-3 hosted only `db`"


CORE_PAIR = replace(DB, cpus=cpus("0-3"), alignments=(Alignment.SMT,))
ONE_CORE = replace(CORE_PAIR, cpus=cpus("2-3"))


@pytest.mark.parametrize(("cpu", "at_s", "outcome"), [(1, 1, "failed"), (1, 7, "passed"), (3, 7, "failed")])
def test_a_core_that_is_given_up_was_the_claims_until_then(cpu: int, at_s: float, outcome: str) -> None:
    """db has two cores, and from 5 s on one."""
    both = replace(PLAIN, claims=(CORE_PAIR,))
    found = seen(moved(5, "0-3", "2-3", CORE_PAIR), cpu_use=(use("db", 2),), intruders=(guest(cpu, at_s),))
    found = replace(found, files_before=(db_files(cpus_effective=cpus("0-3")),))
    said = verdict(found, "smt-alignment", claims=both)

    assert said.outcome == outcome, said.reason
    assert said.measures["cpus"] == "0-3, from 5.0 s on 2-3"
    if outcome == "passed":
        assert said.reason == "CPUs 0-3, from 5.0 s on 2-3 are 2 whole cores, where no foreign workload ran"


@pytest.mark.parametrize(("at_s", "outcome"), [(1, "undecided"), (7, "failed")])
def test_a_core_that_is_received_was_not_the_claims_before(at_s: float, outcome: str) -> None:
    """One core, and from 5 s on two; on the sibling of a pod's CPU, too."""
    one = replace(PLAIN, claims=(ONE_CORE,))
    grown = seen(moved(5, "2-3", "0-3", ONE_CORE), after="0-3", cpu_use=(use("db", 2),), intruders=(guest(1, at_s),))
    assert verdict(grown, "smt-alignment", claims=one).outcome == outcome
    pods = replace(DB, isolation=Isolation.POD, cpus=cpus("2"), alignments=(Alignment.SMT_POD,))
    grown = seen(moved(5, "2", "0,2", pods), after="0,2", cpu_use=(use("db", 2),), intruders=(guest(1, at_s),))
    assert verdict(grown, "smt-alignment", claims=replace(PLAIN, claims=(pods,))).outcome == outcome


def test_the_sibling_of_a_cpu_that_was_given_up_may_be_anybodys() -> None:
    """A pod shrinks from 0,2 to 2: its core 0-1 goes to web's pool."""
    pods = replace(DB, isolation=Isolation.POD, cpus=cpus("0,2"), alignments=(Alignment.SMT_POD,))
    web = claim_web(cpus=cpus("9"), demand_cpus=None)
    rows = (use("db", 2), use("web", 1))
    found = seen(moved(5, "0,2", "2", pods), moved(6, "9", "0-1,9", web), after="2", cpu_use=rows)
    said = verdict(found, "smt-alignment", claims=replace(PLAIN, claims=(pods, web)))
    assert said.outcome == "passed", said.reason


def test_what_was_owned_when() -> None:
    """A change belongs to neither: of a life that follows on other CPUs the begin is no change of the set."""
    steps: tuple[Transition, ...] = reborn()["transitions"]
    later = (*steps[:2], replace(steps[2], start_at_ns=5 * SECOND + 5))  # something else happened to its cgroup before
    for lives in (steps, later):
        assert possession.spans(DB, 1, lives) == [(5 * SECOND, FOREVER_NS)]
        assert possession.spans(DB, 3, lives) == [(-FOREVER_NS, 3 * SECOND + 1)]
        again = ownership.owned(in_force(PLAIN, reborn()["claim_changes"]), DB, lives)
        assert again.spans[3] == ((-FOREVER_NS, 3 * SECOND),)
    owned = ownership.owned(SMALL, SMALL.claims[0], SHRINK["transitions"])
    assert owned.spans[3] == ((-FOREVER_NS, 5 * SECOND),)
    assert owned.spans[2] == ((-FOREVER_NS, FOREVER_NS),)
    astray = ownership.owned(PLAIN, DB, moved(5, "1", "2")["transitions"])
    assert (astray.spans[3], astray.text) == (possession.ALWAYS, "1-3")


def test_many_sets_are_counted() -> None:
    """A sentence names four."""
    steps = [moved(n, *(("2-3", "2") if n % 2 else ("2", "2-3"))) for n in range(1, 6)]
    assert verdict(seen(*steps, after="2")).reason == "CPUs 2-3 (not all at once: 5 changes) hosted only `db`"


@pytest.mark.parametrize(("at_s", "outcome"), [(7, "failed"), (1, "undecided")])
def test_a_set_that_is_not_known_hides_no_violation(at_s: float, outcome: str) -> None:
    """Its own CPUs were not known in its first life; in the second they are."""
    blank = replace(DB, cpus=None)
    lives = {
        "transitions": (change("claim-removed", 3), added(5)),
        "claim_changes": (ClaimChange(at_ns=5 * SECOND + 1, claim=DB),),
    }
    found = verdict(seen(lives, intruders=(guest(3, at_s),)), claims=replace(PLAIN, claims=(blank, PLAIN.claims[1])))
    assert found.outcome == outcome, found.reason
    none = verdict(seen(lives), claims=replace(PLAIN, claims=(blank, PLAIN.claims[1])))
    assert (none.outcome, none.reason) == ("undecided", "which CPUs are its own is not known")


SETS = st.sampled_from(["2-3", "2", "3", "1", "1-3", ""])
TIMES = st.lists(st.integers(1, 98), min_size=6, max_size=6, unique=True)
WHEN = st.lists(st.integers(0, 99), min_size=2, max_size=6, unique=True)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(SETS, min_size=4, max_size=4), TIMES, WHEN, st.integers(1, 3))
def test_no_verdict_is_wrong(sets: list[str], times: list[int], when: list[int], cpu: int) -> None:
    """Three changes of any sets (none: another life), a guest that comes and goes: what is decided is so."""
    sets = [sets[0] or "2-3", *sets[1:-1], sets[-1] or "2"]
    times, when = sorted(times), sorted(when)
    steps, promises = list[Transition](), list[ClaimChange]()
    owned = [(0, times[0], sets[0])]
    for n, (before, after) in enumerate(itertools.pairwise(sets)):
        start, end = times[2 * n], times[2 * n + 1]
        owned.append((start if before and not after else end, times[2 * n + 2] if n < 2 else 100, after))
        ends = {"start_at_ns": start * SECOND // 10, "end_at_ns": end * SECOND // 10}
        if before and after:
            steps.append(change("mask-change", 0, **ends, cpus_before=cpus(before), cpus_after=cpus(after)))
            owned.append((start, end, str(cpus(before) & cpus(after))))
        elif before:
            steps.append(change("claim-removed", 0, **ends, cpus_before=cpus(before)))
        elif after:
            steps.append(change("claim-added", 0, **ends, cpus_after=cpus(after)))
            owned.append((start, end, after))
        if after:
            promises.append(ClaimChange(at_ns=end * SECOND // 10 + 1, claim=replace(DB, cpus=cpus(after))))
    stays = list(zip(when[::2], when[1::2], strict=False))
    shared = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in owned if cpu in cpus(a[2]) for b in stays)
    row = guest(cpu, stays[0][0] / 10, sum(end - begin for begin, end in stays) / 10)
    events = {"transitions": tuple(steps), "claim_changes": tuple(promises)}
    claims = replace(PLAIN, claims=(replace(DB, cpus=cpus(sets[0])), PLAIN.claims[1]))
    evidence = seen(events, intruders=(row,))
    (found,) = exclusive_cpus.check(in_force(claims, promises), evidence)
    assert found.outcome != ("passed" if shared else "failed"), found.reason
