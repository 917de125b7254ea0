"""How often the canaries of a window pulse: seldom where it is long, for a watch of months pays for each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.host import cgroupfs
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.session.engine.canary import LONG_S, OFTEN, SELDOM
from toolkit.session.engine.window import Window

pytestmark = pytest.mark.beside
NONE = ClaimSet(claims=())


@pytest.mark.parametrize(
    ("cut_s", "period_ms"),
    [(None, OFTEN.period_ms), (LONG_S - 1, OFTEN.period_ms), (LONG_S, SELDOM.period_ms), (3600.0, SELDOM.period_ms)],
)
def test_canaries_of_long_windows_pulse_seldom(cut_s: float | None, period_ms: int) -> None:
    """One whose length is not known may be short."""
    window = Window(run_id=f"pace-{os.getpid()}", duration_s=None, cut_s=cut_s)
    with window.canaries(NONE, CpuSet.of(os.sched_getaffinity(0)), 1) as pair:
        pids = [pid for one in pair.claims for pid in cgroupfs.pids(pair.hierarchy, one.cgroup)]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1] for pid in pids]

    assert [command[-3:] for command in commands] == [[b"pulse", b"1", b"%d" % period_ms]] * 2
