"""A failure of the field about a device: its interrupt comes to a CPU that has an owner."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from probes.loaded import observing
from probes.switches.ledger import Ledger
from toolkit.errors import HostUnsupportedError
from toolkit.faults.injection import Injection
from toolkit.faults.interrupts import interrupt_counts
from toolkit.faults.planting import planted
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.interrupts import IrqKind

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.cpu_count() == 1, reason="an exclusive CPU and a shared one are needed"),
]

ENOUGH = 300
"""So often an interrupt came and never where it was moved to: the kernel moves it when it comes next."""
ONLINE = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text())
DISCARD = 9
"""The port of the service that throws away what it gets (RFC 863)."""


def gateway() -> str | None:
    """Return the router of the default route, over a device: what is sent there leaves this machine."""
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        _, destination, router, *_ = line.split()
        if (int(destination, 16), int(router, 16) != 0) == (0, True):
            return socket.inet_ntoa(struct.pack("=I", int(router, 16)))
    return None


def test_an_interrupt_is_delivered_to_an_exclusive_cpu(tmp_path: Path, ledger: Ledger) -> None:
    """F52: a device's interrupt, moved onto a watched CPU, is counted there by number while it is there, not before."""

    router = gateway()

    def work() -> None:
        """Let the disk write, and the network send an empty datagram: not every device's interrupt can be moved."""
        descriptor = os.open(tmp_path / "data", os.O_CREAT | os.O_WRONLY | os.O_DSYNC)
        for _ in range(20):
            os.write(descriptor, os.urandom(4096))
        os.close(descriptor)
        if router is not None:
            with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"", (router, DISCARD))

    before = interrupt_counts(Path("/"))
    work()
    counts = interrupt_counts(Path("/"))
    refused = []
    # Those first that the work causes where they are: one that it does not cause costs the whole deadline.
    for irq in sorted(counts, key=lambda number: (before.get(number, 0) - counts[number], -counts[number])):
        place = Path(f"/proc/irq/{irq}/effective_affinity_list")
        used = CpuSet.parse(place.read_text()) if place.exists() else ONLINE
        if not ONLINE - used:
            continue
        own = CpuSet.of([(ONLINE - used).first()])
        try:
            if _arrives(irq, own, work, ledger):
                return
            refused.append(f"{irq} did not come")
        except HostUnsupportedError:
            refused.append(f"{irq} cannot be moved")
    pytest.skip(f"no interrupt of this machine can be moved and comes often: {', '.join(refused)}")


def _arrives(irq: int, own: CpuSet, work: Callable[[], None], ledger: Ledger) -> bool:
    """Watch a CPU, move the interrupt there, and say whether it came; it must not have come before."""

    def seen(evidence: Evidence) -> int:
        rows = evidence.irq_use or ()
        return sum(row.count for row in rows if row.cpu in own and row.kind is IrqKind.HARD and row.vector == irq)

    with observing(ClaimSet(claims=(), reserved_cpus=own), ledger=ledger) as observer:
        observer.open_window()
        work()
        assert seen(observer.close_window()) == 0
        with planted(Injection(fault="irq-moved", cpus=own, irq=irq, consent=True), run_id="field-irq"):
            observer.open_window()
            deadline, enough = time.monotonic() + 6.0, interrupt_counts(Path("/")).get(irq, 0) + ENOUGH
            while not seen(observer.snapshot()) and time.monotonic() < deadline:
                if interrupt_counts(Path("/")).get(irq, 0) > enough:
                    break  # it goes on coming elsewhere: a hypervisor that does not follow the move
                work()
            return seen(observer.close_window()) > 0
