"""Rows of the interrupt ledger from its records; counts of /proc/softirqs."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.interrupts.decoder import irq_use, merge
from probes.interrupts.records import IRQ_DEVICE, IRQ_SOFT, IRQ_VECTOR, IrqKey, IrqSums
from probes.node.system import read_softirqs, read_system
from toolkit.model.interrupts import IrqKind, IrqUse


def row(kind: int, vector: int, name: bytes = b"", source: int = 0, ns: int = 5) -> IrqUse:
    """One record of CPU 3, decoded."""
    return irq_use(IrqKey(source, 7, 3, vector, kind), IrqSums(2, ns, ns - 1, name.ljust(32, b"\0")))


@pytest.mark.parametrize(
    ("found", "kind", "name"),
    [
        (row(IRQ_DEVICE, 36, b"eth0-rx-0"), IrqKind.HARD, "eth0-rx-0"),
        (row(IRQ_VECTOR, 0xEC), IrqKind.HARD, "local_timer"),
        (row(IRQ_VECTOR, 0x42), IrqKind.HARD, "vector 0x42"),
        (row(IRQ_SOFT, 3), IrqKind.SOFT, "NET_RX"),
        (row(IRQ_SOFT, 10), IrqKind.SOFT, "softirq 10"),
    ],
)
def test_sources_have_the_kernels_names(found: IrqUse, kind: IrqKind, name: str) -> None:
    """Handlers by their own name, vectors and softirqs by number, unknown numbers as numbers."""
    assert (found.kind, found.name, found.cpu, found.count, found.longest_ns) == (kind, name, 3, 2, 4)


def test_a_handler_requested_again_is_one_source() -> None:
    """Two irqactions of one name and number are one row; a handler that shares the number is another."""
    rows = merge([row(IRQ_DEVICE, 36, b"eth0", 1), row(IRQ_DEVICE, 36, b"eth0", 2, 9), row(IRQ_DEVICE, 36, b"usb", 3)])

    assert [(use.name, use.count, use.ns, use.longest_ns) for use in rows] == [("eth0", 4, 14, 8), ("usb", 2, 5, 4)]


def test_softirqs_are_summed_by_cpu(tmp_path: Path) -> None:
    """Columns are CPUs, named in the first line: an offline CPU has none."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/softirqs").write_text("          CPU0       CPU2\n   HI:   1   2\n  TIMER:  10  20\n")

    assert read_softirqs(tmp_path) == {0: 11, 2: 22}
    assert read_softirqs(tmp_path / "nowhere") == {}


def test_steal_is_told_by_cpu(tmp_path: Path) -> None:
    """The eighth number of each CPU's line, in ticks of USER_HZ."""
    (tmp_path / "proc").mkdir()
    text = "cpu  1 0 0 0 0 0 0 7 0 0\ncpu0 1 0 0 0 0 0 0 3 0 0\ncpu2 1 0 0 0 0 0 0 4 0 0\nctxt 99\n"
    (tmp_path / "proc/stat").write_text(text)
    counters = read_system(tmp_path)

    assert counters.context_switches == 99
    assert counters.steal_by_cpu_ns[0] * 4 == counters.steal_by_cpu_ns[2] * 3
    assert counters.steal_ns == sum(counters.steal_by_cpu_ns.values())
