"""arm64, with pages of 4 and 16 KiB: what the probes promise elsewhere they hold on this architecture, too.

``make lab-arm64``, and not ``make lab``: its emulator, its image and a cross compiler are its own.
"""

from __future__ import annotations

import pytest

from tests.lab.harness.flavours import ARM
from tests.lab.harness.guest import Guest
from tests.lab.harness.guest_tests import assert_all_passed, run_tests
from tests.lab.harness.plugin import guests
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.topology import PAIR

PAGE_BYTES = {"6.12": 4096, "6.12-16k": 16384}
EVERY_PAGE_SIZE = guests(*(GuestKind(topology=PAIR, kernel=kernel, flavour=ARM.name) for kernel in PAGE_BYTES))


@EVERY_PAGE_SIZE
def test_the_guest_is_what_was_asked_for(guest: Guest) -> None:
    """The architecture, and the size of a page."""
    found = guest.python("import os; print(os.uname().machine, os.sysconf('SC_PAGESIZE'))").check().text
    assert found.split() == ["aarch64", str(PAGE_BYTES[guest.kernel])]


@EVERY_PAGE_SIZE
@pytest.mark.parametrize("name", ["recall", "contract"])
def test_probes_hold_what_they_promise(equipped: Guest, name: str) -> None:
    """Every planted escape is counted, timed and named; nothing is lost."""
    ran = run_tests(equipped, f"tests/integration/test_probe_{name}.py", timeout_s=3600)
    assert_all_passed(ran, skips="software emulation")
