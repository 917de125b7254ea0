"""The planner of random plants and the account of what they did: pure, so that the judge of the probes is judged."""

from __future__ import annotations

from tests.integration.account import Action, Deed, Place, Seen, Stamp, differences, truth
from tests.integration.plant_plan import Site, plan

SITE = Site(
    directories={name: f"/cg/{name}" for name in ("db", "web", "remade")}, outside="/cg", inside_cpu=0, outside_cpu=1
)
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


def test_a_seed_is_a_plan() -> None:
    """The same seed makes the same plan, another seed another one."""
    assert plan(3, SITE) == plan(3, SITE)
    assert plan(3, SITE).script != plan(4, SITE).script


def test_a_plan_is_in_order_and_complete() -> None:
    """Times rise; nobody acts before it is there or after its end; everybody is killed."""
    for seed in range(200):
        alive: set[str] = set()
        script = plan(seed, SITE).script
        assert [one.at_us for one in script] == sorted(one.at_us for one in script), seed
        for one in script:
            if one.verb == "spawn":
                alive.add(one.actor)
            elif one.actor != "-":
                assert one.actor in alive, (seed, one)
            if one.verb in ("fork", "clone"):
                alive.add(str(one.args[0]))
            if one.verb == "kill":
                alive.remove(one.actor)
        assert not alive, seed


def test_all_kinds_of_plants_come() -> None:
    """Over some seeds every verb is used, claims stay clean, and observers are stopped."""
    plans = [plan(seed, SITE) for seed in range(60)]
    verbs = {one.verb for each in plans for one in each.script}
    assert verbs >= {"spawn", "write", "fork", "clone", "uring", "hops", "rmdir", "mkdir", "kill"}
    assert any(each.stops for each in plans)
    assert any(all("/cg/db" not in str(one) for one in each.script if "home-" not in one.actor) for each in plans)


def test_a_stay_lies_between_its_readings() -> None:
    """From the end of the one write to the begin of the other at least, from begin to end at most."""
    (row,) = truth(STAY, PLACES).values()
    assert (row.least_ns, row.most_ns, row.stays) == (1_990_000, 2_020_000, 1)


def test_a_child_is_where_its_parent_was() -> None:
    """Until its own end; what it ran before its clock was open widens the truth."""
    child = [*STAY[:2], done("fork", 1500, 1600, "c", new_tid=8)]
    end = Action(at_us=2000, verb="kill", actor="c")
    zero, ran = Stamp(ns=2_000_000, clock=(0, 400_000)), Stamp(ns=2_050_000, clock=(0, 410_000))
    child.append(Deed(action=end, before=zero, after=ran, error=0, tid=8, tids=(8,)))
    row = truth(child, PLACES)["db", "c"]
    assert (row.least_ns, row.most_ns) == (400_000, 450_000)


def test_differences_are_named() -> None:
    """Missed, invented, too little and too much are told apart; what lies in the truth is not told."""
    expected = truth(STAY, PLACES)
    assert differences(expected, [Seen(claim="db", tid=7, ns=2_000_000)]) == []
    assert differences(expected, [])[0].startswith("missed: db")
    assert differences(expected, [Seen(claim="db", tid=7, ns=1_000_000)])[0].startswith("too little: db")
    assert differences(expected, [Seen(claim="db", tid=7, ns=3_000_000)])[0].startswith("too much: db")
    stranger = [Seen(claim="db", tid=7, ns=2_000_000), Seen(claim="db", tid=9, ns=30_000)]
    assert differences(expected, stranger)[0].startswith("invented: db: thread 9")
