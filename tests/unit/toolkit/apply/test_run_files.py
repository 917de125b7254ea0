"""Files of a run on a file system that is full."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from toolkit.apply import delegation
from toolkit.apply.delegation import TaskMask
from toolkit.apply.run_files import making
from toolkit.errors import ApplyError
from toolkit.model.cpuset import CpuSet


def test_an_error_without_a_file_is_not_our_outputs(tmp_path: Path) -> None:
    """``write`` names no file: without a name it would be told as that of standard output."""
    with pytest.raises(ApplyError, match=f"^{tmp_path}: No space left on device$"), making(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_masks_that_cannot_be_kept(tmp_path: Path) -> None:
    """The file is named."""
    with pytest.raises(ApplyError, match=r"affinities\.json: No such file"):
        delegation.keep(tmp_path / "nowhere", (TaskMask(1, 1, CpuSet.of([0])),))
