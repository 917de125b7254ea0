"""The timeline that evidence has: what was promised, what was lent beyond that, and when nothing is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web, cpus, evidence
from toolkit.errors import InputError
from toolkit.model.claim_changes import ClaimChange, in_force
from toolkit.model.claims import Claim
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence import Transition
from toolkit.model.evidence.following import Following
from toolkit.model.held import FOREVER_NS, Held, Why
from toolkit.model.serde import from_data
from toolkit.timeline.held import cpus_of
from toolkit.timeline.ran import asked, is_unknown
from toolkit.timeline.saved import as_of_today, lent, lives, possible, promised

S = 1_000_000_000
DB = claim_db()


def moved(at_s: float, before: str, after: str, took_s: float = 0.0) -> Transition:
    """The set of ``db`` was changed by its source."""
    at_ns, end_ns = round(at_s * S), round((at_s + took_s) * S)
    sets = {"cpus_before": cpus(before), "cpus_after": cpus(after)}
    return Transition(claim="db", what="cpus", start_at_ns=at_ns, end_at_ns=end_ns, cause="kubelet", **sets)


def event(what: str, at_s: float) -> Transition:
    """Something happened to ``db`` at a moment."""
    return Transition(claim="db", what=what, start_at_ns=round(at_s * S), end_at_ns=round(at_s * S))


def told(now: Claim, *mine: Transition) -> list[tuple[float, float, str, Why]]:
    """What ``db`` was promised: seconds from and to, CPUs, why."""
    claims = in_force(claim_set(DB, claim_web()), [ClaimChange(at_ns=3 * S, claim=now)] if now != DB else [])
    (claim, *_) = claims.claims
    rows = promised(claims, claim, mine).rows
    return [(row.from_ns / S, row.to_ns / S, str(row.cpus), row.why) for row in rows]


EVER = FOREVER_NS / S


def test_one_promise_without_end() -> None:
    """Nothing happened: it held all the time, before the window and after it."""
    assert told(DB) == [(-EVER, EVER, str(DB.cpus), Why.PROMISED)]


def test_a_set_that_changes_is_in_common_meanwhile() -> None:
    """From when the change is complete on it holds the new one."""
    rows = told(DB, moved(2, "2-3", "3-4", took_s=0.5))

    assert rows == [
        (-EVER, 2, "2-3", Why.PROMISED),
        (2, 2.5, "3", Why.CHANGING),
        (2.5, EVER, "3-4", Why.PROMISED),
    ]


def test_a_life_ends_and_the_next_has_its_own() -> None:
    """Between the two nothing is held; the next life's set is what it is promised from then on."""
    now = replace(DB, cpus=cpus("5"), quota_us=50_000)

    rows = told(now, event("claim-removed", 2), event("claim-added", 3))

    assert rows == [(-EVER, 2, "2-3", Why.PROMISED), (3, EVER, "5", Why.PROMISED)]


sets = st.sets(st.integers(0, 3), min_size=1).map(lambda found: str(CpuSet.of(found)))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), sets), max_size=5), st.integers(-1, 30))
def test_what_is_promised_was_possible(steps: list[tuple[int, int, str]], at_s: int) -> None:
    """Also what a change gives or takes, for as long as it is under way; nothing else."""
    at, had, changes = 0, str(DB.cpus), list[Transition]()
    for pause_s, took_s, cpus_after in steps:
        changes.append(moved(at + pause_s, had, cpus_after, took_s))
        at, had = at + pause_s + took_s, cpus_after
    now = replace(DB, cpus=cpus(had))
    timeline, at_ns = possible(now, changes), at_s * S
    assert timeline is not None
    certain = promised(claim_set(now), now, changes).at("db", at_ns)
    under_way = [one for one in changes if one.start_at_ns <= at_ns < one.end_at_ns]
    moving = CpuSet.union((one.cpus_before or EMPTY) | (one.cpus_after or EMPTY) for one in under_way)

    assert cpus_of(timeline.at("db", at_ns)) == cpus_of(certain) | moving
    assert not any(row.certain for row in timeline.rows)
    if len(changes) > 1 and changes[0].cpus_after != changes[1].cpus_after:
        assert possible(now, (changes[0], replace(changes[1], cpus_before=changes[1].cpus_after))) is None


@given(st.lists(st.tuples(st.sampled_from(["claim-added", "claim-removed"]), st.integers(0, 9)), max_size=6))
def test_lives_follow_each_other(events: list[tuple[str, int]]) -> None:
    """In order, none in another, whatever was written down."""
    found = lives([event(what, at) for what, at in events])

    assert all(begin <= end for begin, end in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))


KNOWN = Following(source="kubelet", known_until_ns=7 * S)
GRANTED = Held(claim="web", cpus=cpus("2"), why=Why.GRANTED, from_ns=S, to_ns=3 * S + 1, certain=False)


@pytest.mark.parametrize(("at_s", "may_have"), [(0.99, ""), (1, "2"), (3, "2"), (3.01, "")])
def test_what_was_granted_is_lent_for_that_time(at_s: float, may_have: str) -> None:
    """Both ends are of it, it is not certain, and it is no other claim's."""
    timeline = lent(evidence(following=KNOWN, held=(GRANTED,)))

    rows = timeline.at("web", round(at_s * S))
    assert (str(cpus_of(rows)), [row.why for row in rows]) == (may_have, [Why.GRANTED] if may_have else [])
    assert not any(row.certain for row in rows)
    assert timeline.at("db", 2 * S) == ()


def test_after_the_last_reading_nothing_is_known_of_any_claim() -> None:
    """Of each, also of one that no claim's name is yet."""
    timeline = lent(evidence(following=KNOWN))

    assert [is_unknown(at_s * S, timeline) for at_s in (6, 7, 99)] == [False, True, True]
    assert [row.why for row in timeline.at("new", 8 * S)] == [Why.UNREAD]
    assert not is_unknown(8 * S, lent(evidence(following=replace(KNOWN, known_until_ns=None))))


def test_a_claims_file_lends_nothing() -> None:
    """Where no source is followed, what it says is all that there is."""
    found = evidence(held=(GRANTED,))

    assert lent(found).rows == ()
    assert asked(found).offenders == found.offenders


def test_a_cgroup_that_was_made_again_may_have_what_is_promised_next() -> None:
    """From when it was made until its source said that the life before had ended."""
    mine = (event("cgroup-gone", 1), event("cgroup-made", 2), event("claim-removed", 4))
    seen = evidence(following=KNOWN, transitions=mine, later=(replace(DB, cpus=cpus("6")),))

    assert [str(cpus_of(lent(seen).at("db", at_s * S))) for at_s in (1, 2, 4, 5)] == ["", "6", "6", ""]


def test_the_rows_of_the_ledger_stay_as_they_are() -> None:
    """What they mean is said beside them."""
    seen = evidence(following=KNOWN, held=(GRANTED,))

    assert tuple(one.row for one in asked(seen).rows) == seen.cpu_use


def test_evidence_of_schema_1_is_read_as_what_it_is() -> None:
    """The field in which a row stood is its reason; what was granted or made was so at its last moment, too."""
    data = as_of_today(
        {
            "duration_ns": 9,
            "giving_back": [
                {"claim": "be", "cpus": "3", "since_ns": -2, "limit_ns": 15, "until_ns": None},
                {"claim": "db", "cpus": "2", "since_ns": 4, "limit_ns": 4, "until_ns": 6},
            ],
            "granted": [{"claim": "web", "cpus": "2", "since_ns": 1, "until_ns": 3}],
            "making": [{"cgroup": "/pods/new", "since_ns": 1, "until_ns": 2}],
            "forgotten": [
                {"claim": "db", "count": 2, "cpus": "2-3", "certain": False, "since_ns": 0, "until_ns": None}
            ],
        },
        1,
    )
    assert set(data) == {"duration_ns", "held"}
    assert from_data(tuple[Held, ...], data["held"], "evidence.json") == (
        Held(claim="be", cpus=cpus("3"), why=Why.OWED, from_ns=-2, due_ns=15),
        Held(claim="db", cpus=cpus("2"), why=Why.TAKEN, from_ns=4, due_ns=4, to_ns=6),
        Held(claim="web", cpus=cpus("2"), why=Why.GRANTED, from_ns=1, to_ns=4, certain=False),
        Held(claim="", cgroup="/pods/new", why=Why.BEING_MADE, from_ns=1, to_ns=3),
        Held(claim="db", cpus=cpus("2-3"), why=Why.FORGOTTEN, from_ns=0, asks=2, certain=False),
    )


def test_evidence_of_schema_2_says_what_was_promised_after_its_window_as_changes() -> None:
    """They come after those of the window, and none of them is in force in it."""
    now, then = ({"at_ns": at_ns, "claim": {"name": "db", "cgroup": "/c"}} for at_ns in (4, 12))
    data = as_of_today({"duration_ns": 9, "claim_changes": [now], "renewed": [then]}, 2)
    assert data == {"duration_ns": 9, "claim_changes": [now, then]} == as_of_today(data, 3)
    assert as_of_today({"renewed": 7}, 2) == {"renewed": 7}, "refused as what it is"

    seen = evidence(
        claim_changes=from_data(tuple[ClaimChange, ...], data["claim_changes"], "evidence.json"), duration_ns=9
    )
    assert ([one.at_ns for one in seen.changed], [one.at_ns for one in seen.renewed]) == ([4], [12])


@pytest.mark.parametrize("row", [7, {"claim": "be", "colour": "red"}, {"claim": "be", "since_ns": "soon"}])
def test_a_row_of_schema_1_that_is_none_is_refused(row: object) -> None:
    """In one line, as any other."""
    with pytest.raises(InputError, match=r"^evidence\.json: "):
        from_data(tuple[Held, ...], as_of_today({"giving_back": [row]}, 1)["held"], "evidence.json")
