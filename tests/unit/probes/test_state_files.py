"""What was reported of a kubelet's state files: events as the kernel lays them out, and what a window has of them."""

from __future__ import annotations

import struct

from probes.state_files.decoder import StateFileReading
from probes.state_files.reader import EndedProcess
from tests.unit.probes.readings import FRAME, START, built, but
from toolkit.host import fanotify
from toolkit.host.fanotify import FileEvent
from toolkit.model.blind_spots import Witness
from toolkit.model.evidence import StateWrite


def event(mask: int, pid: int, name: bytes) -> bytes:
    """Lay an event out as the kernel does: header, then file system, handle and name of the entry in its directory."""
    body = b"\0" * 8 + struct.pack("=Ii", 8, 1) + b"h" * 8 + name + b"\0"
    body += b"\0" * (-len(body) % 4)
    record = struct.pack("=BBH", 2, 0, 4 + len(body)) + body
    other = struct.pack("=BBH", 99, 0, 8) + b"????"
    return struct.pack("=IBBHQii", 24 + len(other) + len(record), 3, 0, 24, mask, -1, pid) + other + record


def test_events_are_read_as_the_kernel_lays_them_out() -> None:
    """One after the other, by name and process; of an overflow there is neither, and rubbish ends the reading."""
    lost = struct.pack("=IBBHQii", 24, 3, 0, 24, fanotify.OVERFLOW, -1, 0)
    data = event(0x2, 7, b"cpu_manager_state") + lost + event(0x80, 8, b"a b\xff") + bytes(24)

    assert list(fanotify.events_of(data)) == [
        FileEvent(0x2, 7, b"cpu_manager_state"),
        FileEvent(fanotify.OVERFLOW, 0, b""),
        FileEvent(0x80, 8, b"a b\xff"),
    ]


def test_the_record_of_an_ended_process_has_the_bytes_of_the_map() -> None:
    """``struct ended_process``."""
    assert EndedProcess.decode(struct.pack("=QII16s", 5, 90, 0, b"mv")) == EndedProcess(5, 90, b"mv".ljust(16, b"\0"))


def write(at_ns: int, comm: str, file: str = "cpu_manager_state") -> StateWrite:
    """Build one change of a file."""
    return StateWrite(at_ns=at_ns, file=file, did="replaced", pid=1, comm=comm)


def test_a_window_has_its_changes_and_the_last_before_it() -> None:
    """By a kubelet and by anything else, of each file: a kubelet's saves do not hide what was changed by hand."""
    writes = (
        write(START - 9, "vi"),
        write(START - 8, "sed"),
        write(START - 7, "kubelet"),
        write(START - 6, "kubelet"),
        write(START - 5, "mv", "memory_manager_state"),
        write(START + 3, "k3s-server"),
        write(FRAME.end_ns + 1, "late"),
    )
    found = built(FRAME, but(StateFileReading(writes=writes))).state_writes

    assert [(row.at_ns, row.comm) for row in found or ()] == [
        (-8, "sed"),
        (-6, "kubelet"),
        (-5, "mv"),
        (3, "k3s-server"),
    ]


def test_what_is_not_observed_says_why() -> None:
    """It leaves no rule in doubt: authors explain."""
    found = built(FRAME, but(StateFileReading(problem="/k: Operation not supported")))

    assert found.state_writes is None
    (spot,) = [one for one in found.coverage.blindness if "state files" in one.text]
    assert spot.text == "what writes the kubelet's state files is not observed: /k: Operation not supported"
    assert spot.witnesses == (Witness.ACTIONS,)
