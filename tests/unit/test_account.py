"""The account of what a director did: pure, so that the judge of the probes is judged."""

from __future__ import annotations

from dataclasses import replace

from tests.integration.account import WAY_OUT_NS, Action, Deed, Place, Stamp, gone, truth
from tests.integration.account_compared import Seen, SeenLeft, differences, is_due_to_leaves, leaves_differ

PLACES = (Place(claim="db", procs="/cg/db/cgroup.procs", forbidden=1),)


def done(verb: str, before_us: int, after_us: int, *args: str, tid: int = 7, new_tid: int = 0) -> Deed:
    """A deed of an actor that was on CPU 1 all the time."""
    before, after = (Stamp(ns=us * 1000, clock=(0, us * 1000)) for us in (before_us, after_us))
    action = Action(at_us=before_us, verb=verb, actor="a", args=args)
    return Deed(action=action, before=before, after=after, error=0, tid=tid, tids=(tid,), new_tid=new_tid)


STAY = [
    done("spawn", 0, 0, "1"),
    done("write", 1000, 1010, "/cg/db/cgroup.procs"),
    done("write", 3000, 3020, "/cg/cgroup.procs"),
    done("kill", 9000, 9000),
]


def test_a_stay_lies_between_its_readings() -> None:
    """From the end of the one write to the begin of the other at least, from begin to end at most."""
    (row,) = truth(STAY, PLACES).outside.values()
    assert (row.least_ns, row.most_ns, row.stays) == (1_990_000, 2_020_000, 1)


def test_a_child_is_where_its_parent_was() -> None:
    """Until its own end; what it ran before its clock was open widens the truth."""
    child = [*STAY[:2], done("fork", 1500, 1600, "c", new_tid=8)]
    end = Action(at_us=2000, verb="kill", actor="c")
    zero, ran = Stamp(ns=2_000_000, clock=(0, 400_000)), Stamp(ns=2_050_000, clock=(0, 410_000))
    child.append(Deed(action=end, before=zero, after=ran, error=0, tid=8, tids=(8,)))
    row = truth(child, PLACES).outside["db", "c"]
    assert (row.least_ns, row.most_ns, row.stays) == (400_000, 450_000, 1)
    child[2] = replace(child[2], before_birth_ns=70_000)
    row = truth(child, PLACES).outside["db", "c"]
    assert (row.least_ns, row.most_ns, row.stays) == (400_000, 520_000, 2)


def test_differences_are_named() -> None:
    """Missed, invented, too little and too much are told apart; what lies in the truth is not told."""
    expected = truth(STAY, PLACES).outside
    assert differences(expected, [Seen(claim="db", tid=7, ns=2_000_000)]) == []
    assert differences(expected, [])[0].startswith("missed: db")
    assert differences(expected, [Seen(claim="db", tid=7, ns=1_000_000)])[0].startswith("too little: db")
    assert differences(expected, [Seen(claim="db", tid=7, ns=3_000_000)])[0].startswith("too much: db")
    stranger = [Seen(claim="db", tid=7, ns=2_000_000), Seen(claim="db", tid=9, ns=30_000)]
    assert differences(expected, stranger)[0].startswith("invented: db: thread 9")


def test_an_interruption_that_the_kernel_hid_may_cost_a_tick() -> None:
    """Only where perf counted a switch that the ledger did not, and a hidden thread ran."""
    out = replace(STAY[2].before, switched=(0, 3))
    expected = truth([*STAY[:2], replace(STAY[2], before=out), STAY[3]], PLACES).outside
    short = Seen(claim="db", tid=7, ns=1_000_000, switches=2)

    assert differences(expected, [short], hidden_arrivals=1) == []
    assert differences(expected, [short])[0].startswith("too little: db")
    assert differences(expected, [replace(short, switches=3)], hidden_arrivals=1)[0].startswith("too little: db")
    assert differences(expected, [replace(short, ns=3_000_000)], hidden_arrivals=1)[0].startswith("too much: db")


def test_hops_are_its_own_sums_and_the_rest_is_behind_the_other_door() -> None:
    """Behind the first door what it counted itself, since the last time; behind the second one what is left."""
    places = (*PLACES, Place(claim="web", procs="/cg/web/cgroup.procs", forbidden=1))
    asked = done("hops", 1000, 1000, "/cg/db/cgroup.procs", "/cg/web/cgroup.procs", "5", "100")
    made = replace(done("wait", 1500, 3000), least=700_000, most=900_000, stays=5)
    found = truth([STAY[0], asked, made, done("kill", 3500, 3500)], places).outside
    assert (found["db", "a"].least_ns, found["db", "a"].most_ns, found["db", "a"].stays) == (700_000, 900_000, 5)
    # 2,000 us of hopping less its sums, and 500 us until it was killed.
    assert (found["web", "a"].least_ns, found["web", "a"].most_ns) == (1_600_000, 1_800_000)


def test_a_vforked_child_is_its_own_task() -> None:
    """It is under the claim of its parent, on the CPU it was sent to, by its own name; its clock ends before it."""
    child = replace(done("wait", 1600, 5000), child=9, child_least=2_900_000, child_most=3_000_000)
    row = truth([*STAY[:2], done("vfork", 1500, 1500, "1", "3000"), child], PLACES).outside["db", "a/vfork"]
    assert (row.least_ns, row.most_ns, row.tids) == (2_900_000, 3_000_000 + WAY_OUT_NS, {9})


def test_a_leader_that_dies_for_an_exec_is_on_its_way_out() -> None:
    """Its clock ends before it does; a stay that begins afterwards has nothing of it."""
    moves = [*STAY[:2], done("exec", 1500, 1700, new_tid=8), *STAY[2:3]]
    later = [done("write", 4000, 4010, "/cg/db/cgroup.procs"), done("write", 5000, 5020, "/cg/cgroup.procs")]
    (row,) = truth(moves, PLACES).outside.values()
    assert (row.least_ns, row.most_ns, row.tids) == (1_990_000, 2_020_000 + WAY_OUT_NS, {7, 8})
    (both,) = truth([*moves, *later], PLACES).outside.values()
    assert both.most_ns == row.most_ns + 1_020_000


def test_a_cpuset_that_follows_soon_forgives_what_came_before_it() -> None:
    """Within the patience, not after it; at its end both are possible."""
    place = replace(PLACES[0], cpuset="/cpuset/db/cgroup.procs")

    def outside(cpuset_us: int) -> tuple[int, int]:
        joined = done("write", cpuset_us, cpuset_us, "/cpuset/db/cgroup.procs")
        (row,) = truth([*STAY[:2], joined, done("kill", 200_000, 200_000)], (place,)).outside.values()
        return row.least_ns // 1000, row.most_ns // 1000

    assert outside(11_000) == (189_000, 189_000)
    assert outside(120_000) == (198_990, 199_000)
    assert outside(76_000) == (124_000, 199_000)
    # A first write that takes long: it was in at once, or at the end of it, and the cpuset follows late or soon.
    slow = [STAY[0], done("write", 1000, 150_000, "/cg/db/cgroup.procs")]
    joined = done("write", 151_000, 151_000, "/cpuset/db/cgroup.procs")
    (row,) = truth([*slow, joined, done("kill", 200_000, 200_000)], (place,)).outside.values()
    assert (row.least_ns, row.most_ns) == (49_000_000, 199_000_000)


EXECUTED = [*STAY[:2], done("exec", 1500, 1700, new_tid=8), *STAY[2:]]


def test_an_actor_that_executed_inside_and_is_moved_out_has_left() -> None:
    """In the time of that write, under any id that it had; one that keeps its program, or executed outside, has not."""
    (one,) = truth(EXECUTED, PLACES).left
    assert (one.claim, one.actor, one.tids, one.from_ns, one.to_ns) == ("db", "a", {7, 8}, 3_000_000, 3_020_000)
    assert truth(STAY, PLACES).left == ()
    assert truth([STAY[0], done("exec", 500, 600, new_tid=8), *STAY[1:]], PLACES).left == ()
    other = Place(claim="web", procs="/cg/web/cgroup.procs", forbidden=0)
    into = done("write", 3000, 3020, "/cg/web/cgroup.procs")
    assert truth([*EXECUTED[:3], into, STAY[3]], (*PLACES, other)).left == ()


def test_time_after_a_leave_is_on_an_account_of_its_own() -> None:
    """On the CPU that is another's own, until it is killed or comes back; of a visitor there is none."""
    found = truth(EXECUTED, PLACES, 1).outside
    assert (found["db", "a"].least_ns, found[gone("db"), "a"].least_ns) == (1_990_000, 5_980_000)
    assert (gone("db"), "a") not in truth(STAY, PLACES, 1).outside
    back = [done("write", 4000, 4010, "/cg/db/cgroup.procs"), STAY[3]]
    found = truth([*EXECUTED[:4], *back], PLACES, 1).outside
    assert (found[gone("db"), "a"].least_ns, found["db", "a"].least_ns) == (980_000, 1_990_000 + 4_990_000)


def test_a_leave_fits_by_claim_thread_and_time() -> None:
    """Each once: another claim's, another thread's, or one at another time is invented, and the true one missed."""
    expected = truth(EXECUTED, PLACES).left
    right = SeenLeft(claim="db", tid=7, at_ns=3_010_000)
    assert leaves_differ(expected, [right]) == []
    for wrong in (replace(right, claim="web"), replace(right, tid=9), replace(right, at_ns=3_020_001)):
        invented, missed = leaves_differ(expected, [wrong])
        assert (invented.split(":")[0], missed.split(":")[0]) == ("invented", "missed")
    assert [line.split(":")[0] for line in leaves_differ(expected, [right, right])] == ["invented"]


def test_a_doubt_is_a_leaves_only_if_each_part_of_it_names_one_that_left() -> None:
    """What else is doubtful in the same sentence, and a task that did not leave, count as undecided."""
    expected = truth(EXECUTED, PLACES).left
    right = (
        "a (pid 7) left its cgroup for /, moved by director (pid 3) at 07:19:04.738 UTC: what it was promised did not"
    )
    right += " hold it"
    known = ("db", "web")
    assert is_due_to_leaves("db", right, expected, known)
    assert is_due_to_leaves("db", f"{right}; {right}", expected, known)
    assert is_due_to_leaves("evidence", right, expected, known)
    assert not is_due_to_leaves("web", right, expected, known)
    assert not is_due_to_leaves("db", right.replace("pid 7", "pid 9"), expected, known)
    for doubt in (f"{right}; 2 events were lost", f"2 events were lost, {right}", f"{right} (and 1 more)"):
        assert not is_due_to_leaves("db", doubt, expected, known)
    assert not is_due_to_leaves("db", right, (), known)
