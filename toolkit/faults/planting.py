"""Plant a fault and take it back: a context manager around real changes of the host.

::

    with planted(Injection(fault="quota-reset", targets=("/pinproof-r1/pod/db",)), run_id="f1") as fault:
        ...                                 # the quota is gone
    ...                                     # the quota is what it was

Every change stands in a journal of :mod:`toolkit.apply.journal` before it is made, so ``pinproof cleanup`` takes it
back after SIGKILL too.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.apply import changes, delegation, journal, runs
from toolkit.apply.change import HostChange
from toolkit.apply.journal import Journal, Record
from toolkit.apply.unwind import signals_unwind
from toolkit.errors import ApplyError, HostUnsupportedError, InputError
from toolkit.faults.consent import require_allowed
from toolkit.faults.fault import Alternatives, Deed, Fault, Masks
from toolkit.faults.injection import Host, Injection
from toolkit.faults.registry import fault_by_id
from toolkit.host import cgroupfs


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A fault that stands. :param began_ns: CLOCK_MONOTONIC before, ``ended_ns`` after the changes were made."""

    fault: Fault
    changes: tuple[HostChange, ...]
    began_ns: int
    ended_ns: int
    pid: int = 0
    """The process that it is about: a new one, or one that was moved."""


def prepared(host: Host, injection: Injection) -> Alternatives:
    """Return the changes that make a fault on this host. Nothing is written.

    :raises InputError: the fault makes no sense here. :raises HostUnsupportedError: this host cannot do it.
    """
    fault = fault_by_id(injection.fault)
    if fault.prepare is None:
        raise InputError(f"fault {fault.id}", "nothing that could be planted", "a scenario's negative control")
    return fault.prepare(host, injection)


@contextlib.contextmanager
def planted(injection: Injection, *, run_id: str, root: Path = Path("/")) -> Iterator[Planted]:
    """Plant the fault for as long as the block runs.

    :raises InputError: it makes no sense, or needs consent. :raises HostUnsupportedError: this host cannot do it.
    :raises ApplyError: the kernel refused it, or something could not be taken back.
    """
    hierarchy = cgroupfs.detect(root)
    fault = fault_by_id(injection.fault)
    require_allowed(root, hierarchy, fault, injection.targets, consent=injection.consent)
    host = Host(root, hierarchy, journal.check_run_id(run_id))
    # What another injection left behind would be taken for the state to go back to.
    runs.cleanup(root)
    alternatives = prepared(host, injection)
    children: list[subprocess.Popen[bytes]] = []
    with signals_unwind():
        with journal.locked(root):
            run = journal.create(root, run_id, ())
        try:
            run = _keep_masks(host, fault, injection, run)
            began = time.monotonic_ns()
            made = _make_one(host, fault, run, alternatives)
            pid = max((change.pid for change in made), default=0)
            if fault.act is not None:
                deed = Deed(host=host, injection=injection, run=run, changes=made, children=children)
                pid = fault.act(deed) or pid
            yield Planted(fault=fault, changes=made, began_ns=began, ended_ns=time.monotonic_ns(), pid=pid)
        finally:
            runs.end(root, hierarchy, run)
            for child in children:
                child.wait()


def _make_one(host: Host, fault: Fault, run: Journal, alternatives: Alternatives) -> tuple[HostChange, ...]:
    problem = ""
    for wanted in alternatives:
        try:
            run = changes.make(host.root, host.hierarchy, run, wanted)
        except ApplyError as error:
            problem = problem or str(error)
            if not fault.by_trying:
                raise
        else:
            return wanted
    raise HostUnsupportedError(f"this host lets none of {len(alternatives)} interrupts be moved: {problem}")


def _keep_masks(host: Host, fault: Fault, injection: Injection, run: Journal) -> Journal:
    """Keep the affinities that the fault may change; they are restored with the rest."""
    if fault.keeps is Masks.NONE:
        return run
    if fault.keeps is Masks.ALL:
        masks = delegation.snapshot(host.root)
    else:
        tids = {tid for cgroup in injection.targets for tid in cgroupfs.tids(host.hierarchy, cgroup)}
        masks = delegation.masks_of(tids, host.root)
    delegation.keep(run.directory, masks)
    return journal.append(run, Record(what="masks-kept"))
