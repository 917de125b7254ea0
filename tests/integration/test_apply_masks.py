"""Affinities that are put back: those that may be set."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toolkit.apply.delegation import TaskMask, masks_of, restore_masks
from toolkit.host import procfs
from toolkit.model.cpuset import CpuSet

pytestmark = [pytest.mark.integration, pytest.mark.beside]
ROOT = Path("/")
NOWHERE = CpuSet.of([8191])
"""No CPU of any machine here: the kernel refuses it for each task."""


def test_the_masks_of_the_kernels_own_threads_are_the_kernels() -> None:
    """They cannot be set; any other task that cannot be set is reported all the same."""
    (bound,) = [pid for pid in procfs.pids(ROOT) if procfs.comm(pid) == "migration/0"]
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            began = {tid: procfs.start_time(tid) for tid in (bound, process.pid)}
            gone = tuple(TaskMask(tid, at or 0, NOWHERE) for tid, at in began.items())
            assert restore_masks(ROOT, gone[:1]) == (0, 0)
            assert restore_masks(ROOT, gone[1:]) == (0, 1)

            before = masks_of([process.pid], ROOT)
            os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
            changed = int(len(os.sched_getaffinity(0)) > 1)
            assert restore_masks(ROOT, before) == (changed, 0)
            assert masks_of([process.pid], ROOT) == before
        finally:
            process.kill()
