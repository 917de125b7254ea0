"""Pressure stall information of the claims' cgroups: what is read at both ends of a window, and what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from probes.cgroups.decoder import ANEW, ENDED, OPEN, PressureReading
from tests.unit.probes.readings import END, FRAME, PRESSURE, SECOND, START, built, but
from toolkit.host.cgroup_mounts import Hierarchy, Mode
from toolkit.host.cgroup_pressure import NO_CGROUP, NO_PRESSURE, Pressure, read_pressure
from toolkit.model.evidence import CpuPressure

SOME = "some avg10=12.27 avg60=10.57 avg300=33.78 total=2315"
FULL = "full avg10=0.00 avg60=0.00 avg300=0.00 total=1903"


@pytest.mark.parametrize(
    ("text", "found"), [(f"{SOME}\n{FULL}\n", (2315, 1903)), (f"{SOME}\n", (2315, None)), ("", None), (None, None)]
)
def test_both_sums_are_read(tmp_path: Path, text: str | None, found: tuple[int, int | None] | None) -> None:
    """Before Linux 5.13 there is no line for ``full``; without PSI there is no file."""
    (tmp_path / "pods/db").mkdir(parents=True)
    if text is not None:
        (tmp_path / "pods/db/cpu.pressure").write_text(text)
    hierarchy = Hierarchy(root=tmp_path, mode=Mode.V2, unified=tmp_path)
    read = read_pressure(hierarchy, "/pods/db")

    assert (read if isinstance(read, str) else (read.some_us, read.full_us)) == (found or NO_PRESSURE)
    assert read_pressure(hierarchy, "/pods/web") == NO_CGROUP


def pressed(reading: PressureReading, closed: bool = True) -> CpuPressure:
    """Return the row of the only claim."""
    (row,) = built(replace(FRAME, closed=closed), but(reading)).pressure
    return row


def test_a_window_has_the_difference() -> None:
    """And how far before the ledger's own moments it was read."""
    row = pressed(PRESSURE)

    assert row == CpuPressure(claim="db", window_ns=SECOND - 100, some_us=700, full_us=600, skew_ns=300 + 10 + 400 + 20)
    assert (FRAME.start_ns, FRAME.end_ns) == (START, END)


@pytest.mark.parametrize(
    ("last", "closed", "why"),
    [
        ({}, False, OPEN),
        ({}, True, ENDED),
        ({"/pods/db": NO_CGROUP}, True, NO_CGROUP),
        ({"/pods/db": Pressure(at_ns=END, inode=6, some_us=9000, full_us=9000)}, True, ANEW),
        ({"/pods/db": Pressure(at_ns=END, inode=5, some_us=9, full_us=9)}, True, ANEW),
    ],
)
def test_what_was_not_read_says_why(last: dict[str, Pressure | str], closed: bool, why: str) -> None:
    """A cgroup made again under its name counts from nothing; an open window is not read."""
    assert pressed(replace(PRESSURE, last=last), closed) == CpuPressure(claim="db", unread=why)
