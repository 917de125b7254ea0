"""Loading the probes once for many observers: compiling takes most of a second here, and many seconds in an emulator.

A ledger is lent to one observer at a time and emptied when it goes back (:meth:`probes.switches.ledger.Ledger.lent`);
whatever an observer keeps in user space ends with it. So nothing that one saw or watched is in another's evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from probes.composition import WITNESSES, new_ledger
from probes.options import ObserveOptions
from probes.switches.ledger import Ledger
from probes.windows import Made
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy


@contextmanager
def loaded(
    root: Path = Path("/"),
    options: ObserveOptions | None = None,
    witnesses: Sequence[Made] = WITNESSES,
) -> Iterator[Ledger]:
    """Compile, load and attach the programs; give the ledger to one :class:`probes.observer.Observer` after the other.

    :raises HostUnsupportedError: pure cgroup v1, no root, no BPF, no BTF, no bcc.
    """
    unified_hierarchy(root)
    with attached(new_ledger(root, options, witnesses)) as ledger:
        yield ledger


@contextmanager
def attached(ledger: Ledger) -> Iterator[Ledger]:
    """Open a ledger, and close it when the block ends."""
    ledger.open()
    try:
        yield ledger
    finally:
        ledger.close()


def unified_hierarchy(root: Path) -> Hierarchy:
    """Return the host's cgroup hierarchy.

    :raises HostUnsupportedError: it has no v2 part, so that BPF cannot distinguish cgroups.
    """
    hierarchy = cgroupfs.detect(root)
    hierarchy.identity_root()
    return hierarchy
