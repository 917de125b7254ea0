"""What a source said, cut into windows: a value with its first and last reading, what was said before with its time."""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.layers import Layer, LayerView
from toolkit.session.said import Said
from toolkit.sources.live_source import SourceReading

SECOND = 1_000_000_000


def reading(at_s: int, cpus: str) -> SourceReading:
    view = LayerView(claim="be/main", layer=Layer.RUNTIME, at_ns=at_s * SECOND, cpus=CpuSet.parse(cpus))
    return SourceReading(
        claims=ClaimSet(claims=(), reconcile_period_s=10.0), layers=(view,), give_back_s=15.0, complete=True
    )


def test_a_window_has_what_was_said_in_it_and_last_before() -> None:
    """Read every 2 s from 2 s to 20 s; the set shrank between 8 s and 10 s. A window from 9 s to 15 s."""
    said = Said("kubelet")
    for at_s in range(2, 21, 2):
        said.read(reading(at_s, "0-3" if at_s <= 8 else "0-2"), at_s * SECOND)

    word = said.word(9 * SECOND, 6 * SECOND)

    assert [(str(view.cpus), view.at_ns // SECOND) for view in word.layers] == [("0-2", 1), ("0-2", 6)]
    before = said.word(5 * SECOND, 2 * SECOND)
    assert [(str(view.cpus), view.at_ns // SECOND) for view in before.layers] == [("0-3", -3), ("0-3", 2)]
    assert word.following is not None
    assert (word.following.readings, word.following.gap_ns, word.following.slack_ns) == (3, 2 * SECOND, 5 * SECOND)


def test_a_set_is_given_back_once_from_its_first_sight_on() -> None:
    """Another reading of the same does not move the limit; when it has been given back, when is said."""
    said = Said("kubelet")
    cpus = CpuSet.parse("3")
    assert said.gives_back("be/main", cpus, 10 * SECOND, 15.0) == 25 * SECOND
    assert said.gives_back("be/main", cpus, 12 * SECOND, 15.0) == 25 * SECOND
    (one,) = said.word(5 * SECOND, 8 * SECOND).giving_back
    assert (one.since_ns, one.limit_ns, one.until_ns) == (5 * SECOND, 20 * SECOND, None)
    said.gave_back("be/main", 14 * SECOND)
    (one,) = said.word(5 * SECOND, 30 * SECOND).giving_back
    assert one.until_ns == 9 * SECOND
    assert said.word(15 * SECOND, SECOND).giving_back == ()


def test_a_container_in_the_making_is_told_while_it_is_one() -> None:
    """Created by 4 s, running by 8 s: of the windows in which a reading said so, with the times of the readings."""
    said = Said("kubelet")
    for at_s in range(2, 13, 2):
        making = ("/kubepods/podx/c",) if 4 <= at_s < 8 else ()
        said.read(replace(reading(at_s, "0-3"), making=making), at_s * SECOND)

    (one,) = said.word(3 * SECOND, 2 * SECOND).making
    assert (one.cgroup, one.since_ns, one.until_ns) == ("/kubepods/podx/c", SECOND, 2 * SECOND)
    assert said.word(5 * SECOND, 5 * SECOND).making[0].since_ns == -SECOND
    assert said.word(7 * SECOND, 5 * SECOND).making == ()


def test_a_claim_that_ended_says_nothing_of_its_next_life() -> None:
    """Another cgroup, another container: what was asked for it is asked anew."""
    said = Said("kubelet")
    said.read(reading(1, "0-3"), SECOND)
    said.ended("be/main", 2 * SECOND)

    assert said.word(0, 5 * SECOND).layers == ()
