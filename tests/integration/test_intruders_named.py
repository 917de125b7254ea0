"""A container that came and went in one window: what ran in its cgroup before it was watched is named by that cgroup.

Its path could not be found any more when the window ends; which it was decides whether it was allowed there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probes.loaded import observing
from probes.switches.ledger import Ledger
from tests.integration.membership_lab import Mover, home, procs
from tests.integration.probe_lab import cgroup, remove
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import OwnerClass

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
pytestmark = [pytest.mark.integration, pytest.mark.skipif(len(ONLINE) < 2, reason="needs a CPU that no claim may use")]


def test_a_cgroup_that_was_a_claims_is_named_when_it_is_gone(ledger: Ledger, mover: Path) -> None:
    """A pod's task runs on an exclusive CPU, its cgroup becomes a claim's, both end, and the window after them."""
    with cgroup(f"pinproof-named-{os.getpid()}") as root:
        short, db = (cgroupfs.identity_dir(cgroupfs.detect(), f"{root}/{name}") for name in ("short", "db"))
        short.mkdir()
        db.mkdir()
        owner = Claim(name="db", cgroup=f"{root}/db", cpus=CpuSet.of([OUT]), isolation=Isolation.CONTAINER)
        script = f"pin {OUT} enter {procs(f'{root}/short')} ready work 20000 pin {IN} leave {home(os.getpid())} tell"
        with observing(ClaimSet(claims=(owner,), pods_root=root), ledger=ledger) as observer:
            with Mover(mover, script) as run:
                observer.open_window()
                run.go()
                run.account()
                observer.add_claim(Claim(name="short", cgroup=f"{root}/short", cpus=CpuSet.of([IN])))
                run.end()
                pid = run.process.pid
            observer.remove_claim("short")
            remove(short)
            evidence = observer.close_window()

    rows = [row for row in evidence.intruders if row.tid == pid and row.owner is OwnerClass.FOREIGN_POD]
    assert {row.cgroup for row in rows} == {f"{root}/short"}, rows
