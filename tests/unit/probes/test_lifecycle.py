"""CPUs that come and go: every event counts once, and a change that no event explains counts too."""

from __future__ import annotations

from probes.node.presence import Presence
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import HotplugEvent

ALL, LESS = CpuSet.parse("0-3"), CpuSet.parse("0-1,3")
OFF = HotplugEvent(cpu=2, online=False, at_ns=10)
ON = HotplugEvent(cpu=2, online=True, at_ns=20)


def test_events_come_once_with_their_own_time() -> None:
    """What the kernel told is passed on once; the list that follows it says nothing new."""
    presence = Presence(ALL)
    assert presence.news((OFF,), LESS, 99) == [OFF]
    assert presence.news((OFF,), LESS, 100) == []
    assert presence.news((OFF, ON), ALL, 101) == [ON]


def test_a_cpu_that_was_away_between_two_looks_is_noticed() -> None:
    """Off and on again between two looks: the list is the same, the events are told."""
    assert Presence(ALL).news((OFF, ON), ALL, 99) == [OFF, ON]


def test_a_change_without_event_counts_from_the_second_look() -> None:
    """The event may be on its way at the first look; without one the list itself is believed."""
    presence = Presence(ALL)
    assert presence.news((), LESS, 50) == []
    assert presence.news((), LESS, 60) == [HotplugEvent(cpu=2, online=False, at_ns=60)]
    assert presence.news((), LESS, 70) == []


def test_an_event_that_comes_late_is_not_counted_twice() -> None:
    """Seen in the list first, told a moment later: one event."""
    presence = Presence(ALL)
    assert presence.news((), LESS, 50) == []
    assert presence.news((OFF,), LESS, 60) == [OFF]
    assert presence.news((OFF,), LESS, 70) == []


def test_an_event_that_comes_later_than_the_second_look_is_not_counted_twice() -> None:
    """The list was believed already: the event adds nothing, and what comes after it is told."""
    presence = Presence(ALL)
    assert presence.news((), LESS, 50) == []
    (noticed,) = presence.news((), LESS, 60)
    assert (noticed.cpu, noticed.online) == (2, False)
    assert presence.news((OFF,), LESS, 70) == []
    assert presence.news((OFF, ON), ALL, 80) == [ON]
