"""The account of what a director did: pure, so that the judge of the probes is judged."""

from __future__ import annotations

from tests.integration.account import Action, Deed, Place, Seen, Stamp, differences, truth

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
