"""When a file was made, whatever it says of when it was written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from toolkit.host.file_birth import born_s


def test_a_file_is_as_old_as_it_is(tmp_path: Path) -> None:
    """Not as it says: a copy keeps the time at which its original was written, one that is moved has another name."""
    file = tmp_path / "config.yaml"
    before_s = time.time() - 1  # file times are those of the last timer interrupt
    file.write_text("x")
    os.utime(file, (100, 100))
    born = born_s(file)
    if born is None:
        pytest.skip(f"the file system of {tmp_path} keeps no time of birth")
    assert before_s < born <= time.time()
    moved = file.rename(tmp_path / "moved")
    os.utime(moved, (200, 200))
    assert born_s(moved) == born


def test_of_what_does_not_say_it_is_not_known(tmp_path: Path) -> None:
    """Of a file that is not there, too."""
    assert born_s(tmp_path / "absent") is None
    assert born_s(Path("/proc/self/status")) is None
