"""Files that the kernel makes in one piece: read in one call, whole, and nothing where they are gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.host.kernel_file import read_record


@pytest.mark.parametrize("size", [0, 1, (1 << 13) - 1, 1 << 13, (1 << 13) + 1, 3 << 13])
def test_a_record_is_read_whole(tmp_path: Path, size: int) -> None:
    """However long it is: of a process in thousands of groups it is longer than one read."""
    (tmp_path / "status").write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))

    assert len(read_record(str(tmp_path / "status")) or b"") == size


def test_a_record_that_is_gone_is_nothing(tmp_path: Path) -> None:
    """A thread that ended is no error; what the kernel refuses for another reason is one."""
    assert read_record(str(tmp_path / "status")) is None
    assert read_record(f"/proc/{os.getpid()}/task/1/status") is None
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="Too many levels"):
        read_record(str(tmp_path / "loop"))
