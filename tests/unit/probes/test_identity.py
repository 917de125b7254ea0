"""Where a cgroup that is deleted and made again is noted: in the window of its time, and in the one that meets it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.cgroups.claimed_paths import CgroupEvent, ClaimedPaths, News
from probes.cgroups.identity import ClaimTracker, Identities
from probes.observer import Observer
from probes.readings import Moment
from probes.subjects import Subject
from probes.witness import Edge
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Transition
from toolkit.model.runtimes import SETUP_NS
from validators.queries import file_history

SECOND = 1_000_000_000
TURN_NS = 100 * SECOND


def window(start_ns: int, end_ns: int = 0) -> Any:
    return SimpleNamespace(
        start_ns=start_ns, end_ns=end_ns, closed=end_ns > 0, transitions=[], cgroup_changed=lambda *_: None
    )


def subject(**values: Any) -> Subject:
    claim = Claim(name="db", cgroup="/db")
    return Subject(claim=claim, cgroup_id=7, slot=0, ident=1, cpus=CpuSet(), since_ns=0, **values)


def observer(*live: Any, subjects: tuple[Subject, ...] = ()) -> Observer:
    made = SimpleNamespace(
        live=lambda: live,
        window=live[-1],
        blind=lambda *_, **__: None,
        ledger=SimpleNamespace(drop_root=lambda _: None, side=lambda _: SimpleNamespace(count=lambda: 0)),
        hierarchy=SimpleNamespace(is_v2=lambda _: True, find_controller=lambda _: None),
        subjects={one.name: one for one in subjects},
    )
    return cast("Observer", made)


@pytest.mark.parametrize(
    ("gone_ns", "made_ns", "of_old", "of_new"),
    [
        (-50, -40, [-50, -40], [-40]),
        (-50, 10, [-50], [10]),
        (5, 10, [], [5, 10]),
        (-SETUP_NS - 50, -SETUP_NS - 40, [-SETUP_NS - 50, -SETUP_NS - 40], []),
    ],
    ids=["before the turn", "across it", "after it", "long before"],
)
def test_an_event_is_of_the_window_in_which_it_happened(
    monkeypatch: pytest.MonkeyPatch, gone_ns: int, made_ns: int, of_old: list[int], of_new: list[int]
) -> None:
    """Heard after the turn; times are by the turn here."""
    monkeypatch.setattr(ClaimTracker, "_track_legacy", lambda *_: None)
    old, new = window(TURN_NS - 10 * SECOND, TURN_NS), window(TURN_NS)
    events = tuple(
        CgroupEvent(at_ns=TURN_NS + at_ns, number=number, made=made)
        for at_ns, number, made in ((gone_ns, 7, False), (made_ns, 8, True))
    )
    names = cast("ClaimedPaths", SimpleNamespace(news=lambda *_: News(total=2, events=events)))

    ClaimTracker(observer(old, new), names).track(subject(reported=True))

    assert [change.start_at_ns + old.start_ns - TURN_NS for change in old.transitions] == of_old
    assert [change.start_at_ns for change in new.transitions] == of_new


@pytest.mark.parametrize(("ago_ns", "noted"), [(SETUP_NS, [-SETUP_NS]), (SETUP_NS + 1, []), (0, [])])
def test_a_window_knows_of_a_cgroup_that_is_being_set_up(ago_ns: int, noted: list[int]) -> None:
    """One that was made up to two seconds before it opened; its files are explained then, and not after that."""
    one = subject(made_ns=TURN_NS - ago_ns if ago_ns else 0)
    new = window(TURN_NS)
    Identities(observer(new, subjects=(one,))).begin(new, Edge(Moment(at_ns=0), ()))

    assert [change.start_at_ns for change in new.transitions] == noted
    found: list[Transition] = new.transitions
    assert file_history.explained(0, found, ()) is bool(noted)
    assert not file_history.explained(SECOND, found, ())


def test_news_stirs_until_it_is_read() -> None:
    """The witness sleeps until then."""
    state, counts = observer(window(0)), [0]
    state.pods = None
    state.ledger = cast("Any", SimpleNamespace(side=lambda _: SimpleNamespace(count=lambda: counts[0])))
    identities = Identities(state)
    assert not identities.stirred()
    counts[0] = 3
    assert identities.stirred()
    identities.look()
    assert not identities.stirred()
