"""Which CPUs are online: looked at when the kernel has reported something, and every so often."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.node.cpus import HOTPLUG_S, Cpus
from probes.node.presence import Presence
from toolkit.host.hotplug import Lapse
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import HotplugEvent


@pytest.mark.parametrize("reported", [True, False])
def test_what_is_reported_is_looked_at_in_the_next_round(reported: bool) -> None:
    """Not a quarter of a second later: the new CPU has no sampler until then."""
    came: list[int] = []
    windows = SimpleNamespace(
        lock=threading.RLock(),
        ledger=SimpleNamespace(online=lambda: CpuSet.of([0, 1])),
        cpu_came_online=came.append,
        live=tuple,
    )
    cpus = Cpus(cast("Any", windows))
    events = (HotplugEvent(cpu=1, online=True, at_ns=1),) if reported else ()
    cpus._presence = Presence(CpuSet.of([0]))
    cpus.hotplug = cast("Any", SimpleNamespace(events=events, take=lambda: events))
    often, each_round = cpus.chores()
    assert (often.period_s, each_round.period_s) == (HOTPLUG_S, 0.0)

    each_round.work()
    assert came == ([1] if reported else [])


@pytest.mark.parametrize(("end_ns", "waits"), [(None, False), (5, True)])
def test_the_list_is_looked_at_often_while_the_kernel_is_not_heard(end_ns: int | None, waits: bool) -> None:
    """A kernel that is heard says so at once; the list is the second witness then, in rounds that come anyway."""
    cpus = Cpus(cast("Any", SimpleNamespace()))
    cpus.hotplug = cast("Any", SimpleNamespace(lapses=[Lapse("blind", 1, 2), Lapse("blind", 3, end_ns)]))
    assert cpus.chores()[0].may_wait() is waits
