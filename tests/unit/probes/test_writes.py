"""Rows of writes to control files from their records, and what is left of a reading that lacks something."""

from __future__ import annotations

import struct
from dataclasses import replace

from probes.build import build
from probes.kernel_structs import DESCRIPTORS, OPEN_FILES
from probes.readings import Readings, Watched
from probes.writes.decoder import WriteReading
from probes.writes.reader import FILES
from probes.writes.records import DIRECTORY, NAME_BYTES, Write, WriteState
from probes.writes.witness import remember
from tests.unit.probes.readings import CLAIM, FRAME, LOST, ONLINE, START, WRITES, but
from toolkit.model.blind_spots import Witness
from toolkit.model.evidence import ControlWrite, Evidence


def record(
    *, at_ns: int = START + 5, result: int = 4, value: bytes = b"0-3\n", cgroup: int = 1, tgid: int = 90
) -> Write:
    """Encode a record as ``struct control_write`` is laid out, and decode it."""
    numbers = struct.pack("=IIQqIIII", 7, cgroup, at_ns, result, 91, tgid, len(value), 3)
    data = numbers + b"sh\x1b[2J".ljust(16, b"\0") + b"cpuset.cpus".ljust(32, b"\0") + value[:63].ljust(64, b"\0")
    return Write.decode(data)


def seen(reading: WriteReading) -> Evidence:
    """Return the evidence of a quiet window with these writes."""
    return build(Readings(FRAME, but(reading)))


def test_a_row_has_everything_of_the_record() -> None:
    """Names become printable, the value loses its line end, the number of a hierarchy becomes its controllers."""
    (row,) = seen(replace(WRITES, writes=(record(),), hierarchies={3: "cpuset"})).control_writes or ()

    assert row == ControlWrite(
        at_ns=5,
        cgroup="/pods/db",
        hierarchy="cpuset",
        file="cpuset.cpus",
        value="0-3",
        value_bytes=4,
        errno=0,
        pid=90,
        tid=91,
        comm="sh\\x1b[2J",
    )


def test_refused_long_and_own_writes() -> None:
    """What the kernel refused has its errno, what was longer its length; our own process is marked."""
    refused = record(result=-22, value=b"\xff" * 100)
    rows = seen(replace(WRITES, writes=(refused, record(tgid=4)), observer_pid=4)).control_writes or ()

    assert (rows[0].errno, rows[0].value, rows[0].value_bytes, rows[0].own) == (22, "\\xff" * 63, 100, False)
    assert (rows[1].errno, rows[1].own, rows[1].hierarchy) == (0, True, "hierarchy 3")


def test_earlier_writes_have_negative_times_and_come_first() -> None:
    """The last write before the window stands before those of the window."""
    rows = seen(replace(WRITES, writes=(record(),), earlier=(record(at_ns=START - 9),))).control_writes or ()

    assert [row.at_ns for row in rows] == [-9, 5]


def test_of_equal_writes_the_first_is_remembered() -> None:
    """A writer that writes the same again changes nothing; another value does, and so does the first one after it."""
    earlier: dict[tuple[int, bytes], Write] = {}
    remember(earlier, [record(at_ns=2, value=b"0-1"), record(at_ns=1, value=b"0-1\n")])
    assert [event.at_ns for event in earlier.values()] == [1]

    later = [record(at_ns=at, value=value) for at, value in ((3, b"0"), (4, b"0-1"), (5, b"0-1"))]
    remember(earlier, [*later, record(at_ns=6, result=-22, value=b"9")])
    assert [event.at_ns for event in earlier.values()] == [4]


def test_what_was_lost_is_counted_and_said() -> None:
    """In the kernel and in user space; the rules that judge are not weakened by it."""
    found = seen(replace(WRITES, first=2, last=5, unkept=4))

    assert found.coverage.control_writes_dropped == 7
    (spot,) = found.coverage.blindness
    assert (spot.text, spot.witnesses) == ("7 writes to control files were not reported", (Witness.ACTIONS,))


def test_a_kernel_that_refuses_is_a_blind_spot() -> None:
    """``None`` is not an empty tuple: nothing looked."""
    found = seen(WriteReading(blind_spots=("what writes control files is not observed: EPERM",)))

    assert found.control_writes is None
    assert [spot.witnesses for spot in found.coverage.blindness] == [(Witness.ACTIONS,)]
    assert seen(WRITES).control_writes == ()


def test_the_controls_writes_are_beside() -> None:
    """Of a canary's cgroup nothing is in the evidence that is judged; unknown numbers are of no claim."""
    control = Watched(claim=replace(CLAIM, name="canary", cgroup="/canary"), ident=LOST, cpus=ONLINE)
    writes = replace(
        WRITES, writes=(record(), record(cgroup=2), record(cgroup=99)), cgroups={**WRITES.cgroups, 2: "/canary"}
    )
    readings = Readings(replace(FRAME, subjects=(*FRAME.subjects, control)), but(writes))

    assert [row.cgroup for row in build(readings.without(["canary"])).control_writes or ()] == ["/pods/db"]
    assert [row.cgroup for row in build(readings.about(["canary"])).control_writes or ()] == ["/canary"]


def test_records_are_as_long_as_the_header_says() -> None:
    """Padding is none: each member begins where the one before ends."""
    assert (Write.LAYOUT.size, WriteState.LAYOUT.size, DIRECTORY.size) == (152, 16, 16)
    assert all(len(name) < NAME_BYTES for name in FILES)
    assert len(FILES) <= 32
    assert OPEN_FILES.keys().isdisjoint(DESCRIPTORS)
