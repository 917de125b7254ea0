"""Maps as the kernel has them: walked in batches, which end where its buckets end."""

from __future__ import annotations

import pytest

from probes.switches.ledger import Ledger
from probes.switches.records import Member

pytestmark = pytest.mark.integration
FIRST = 1 << 30
"""No thread has such a number."""


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 20_000])
def test_every_entry_is_met_once_with_its_value(ledger: Ledger, count: int) -> None:
    """More entries than one batch has, and as many; those that the machine's own tasks made meanwhile are beside."""
    table = ledger.threads
    wanted = {
        number.to_bytes(4, "little"): Member.LAYOUT.pack(7, 0, number, number, 0, 0, 0, 0)
        for number in range(FIRST, FIRST + count)
    }
    try:
        before = table.count()
        for key, value in wanted.items():
            table.update(key, value)
        counted = table.count() - before
        found = [(key, value) for key, value in table.items() if int.from_bytes(key, "little") >= FIRST]
    finally:
        for key in wanted:
            table.delete(key)
    assert len(found) == counted == count
    assert dict(found) == wanted
