"""Where our own threads run while a machine is watched."""

from __future__ import annotations

import os

import pytest

from toolkit.model.cpuset import CpuSet
from toolkit.session.engine.observe import keep_off

ABSENT = 4000
"""No machine has it, so the kernel refuses an affinity of this CPU alone."""


def test_they_keep_off_and_come_back() -> None:
    """Where there are others; alone on one CPU they stay."""
    before = os.sched_getaffinity(0)
    first = min(before)
    with keep_off(CpuSet.of([first])):
        assert os.sched_getaffinity(0) == (before - {first} or before)
    assert os.sched_getaffinity(0) == before


def test_cpus_that_are_gone_when_it_ends_hide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the block came to, a result or an error, is not lost because the CPUs of before cannot be had again."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {ABSENT})
    with keep_off(CpuSet.of([ABSENT])):
        pass
    with pytest.raises(ZeroDivisionError), keep_off(CpuSet.of([ABSENT])):
        _ = 1 // 0
