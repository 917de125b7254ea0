"""Plant a fault and take it back: a context manager around real changes of the host.

::

    with planted(Injection(fault=FaultId.QUOTA_RESET, targets=("/pinproof-r1/pod/db",)), run_id="f1") as fault:
        ...                                 # the quota is gone
    ...                                     # the quota is what it was

Every change stands in a journal of :mod:`toolkit.apply.journal` before it is made, so ``pinproof cleanup`` takes it
back after SIGKILL too.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.apply import cgroups, changes, delegation, journal, launch, runs
from toolkit.apply.change import Change, ChangeKind
from toolkit.apply.journal import Journal, Record
from toolkit.apply.launch import Started
from toolkit.apply.unwind import signals_unwind
from toolkit.apply.workloads import Command
from toolkit.errors import ApplyError, HostUnsupportedError
from toolkit.host import cgroupfs
from toolkit.inject.catalogue import Fault, FaultId, fault_named
from toolkit.inject.prepare import Host, Injection, prepare, rogue_cpus
from toolkit.inject.target import require_allowed

ROGUE = Path(__file__).resolve().parent / "rogue.py"
_MOVES_TASKS = (FaultId.CPUSET_WRITE, FaultId.CPUSET_EMPTIED, FaultId.POOL_EMPTIED, FaultId.TASK_MOVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A fault that stands. :param began_ns: CLOCK_MONOTONIC before, ``ended_ns`` after the changes were made."""

    fault: Fault
    changes: tuple[Change, ...]
    began_ns: int
    ended_ns: int
    pid: int = 0
    """The rogue task, or the process that was moved."""


@contextlib.contextmanager
def planted(injection: Injection, *, run_id: str, root: Path = Path("/")) -> Iterator[Planted]:
    """Plant the fault for as long as the block runs.

    :raises InputError: it makes no sense, or needs consent. :raises HostUnsupportedError: this host cannot do it.
    :raises ApplyError: the kernel refused it, or something could not be taken back.
    """
    hierarchy = cgroupfs.detect(root)
    fault = fault_named(injection.fault)
    require_allowed(root, hierarchy, fault, injection.targets, consent=injection.consent)
    if os.geteuid() != 0:
        raise HostUnsupportedError("planting faults needs root: run it with sudo")
    host = Host(root, hierarchy, journal.check_run_id(run_id))
    # What another injection left behind would be taken for the state to go back to.
    runs.cleanup(root)
    alternatives = prepare(host, injection)
    rogue = rogue_cpus(host, injection) if injection.fault is FaultId.ROGUE_TASK else None
    children: list[subprocess.Popen[bytes]] = []
    with signals_unwind():
        with journal.locked(root):
            run = journal.create(root, run_id, ())
        try:
            run = _keep_masks(host, injection, run)
            began = time.monotonic_ns()
            made = _make_one(host, run, alternatives)
            pid = max((change.pid for change in made), default=0)
            if rogue is not None:
                pid = _start_rogue(host, run, made[0], rogue.first(), children)
            yield Planted(fault=fault, changes=made, began_ns=began, ended_ns=time.monotonic_ns(), pid=pid)
        finally:
            runs.end(root, hierarchy, run)
            for child in children:
                child.wait()


def _make_one(host: Host, run: Journal, alternatives: tuple[tuple[Change, ...], ...]) -> tuple[Change, ...]:
    problem = ""
    for wanted in alternatives:
        try:
            run = changes.make(host.root, host.hierarchy, run, wanted)
        except ApplyError as error:
            problem = problem or str(error)
            if not _is_interrupt(wanted):
                raise
        else:
            return wanted
    raise HostUnsupportedError(f"this host lets none of {len(alternatives)} interrupts be moved: {problem}")


def _is_interrupt(wanted: tuple[Change, ...]) -> bool:
    """Interrupts are the one thing of which only trying tells whether it can be changed (managed, or per CPU)."""
    return all(Path(change.path).name == "smp_affinity_list" for change in wanted)


def _keep_masks(host: Host, injection: Injection, run: Journal) -> Journal:
    """Keep the affinities that the change may reset on kernels before 6.2 (K11); restored with the rest."""
    if injection.fault is FaultId.CPU_OFFLINE:
        masks = delegation.snapshot(host.root)
    elif injection.fault in _MOVES_TASKS:
        tids = {tid for cgroup in injection.targets for tid in cgroupfs.tids(host.hierarchy, cgroup)}
        masks = tuple(mask for mask in delegation.snapshot(host.root) if mask.tid in tids)
    else:
        return run
    delegation.keep(run.directory, masks)
    return journal.append(run, Record(what="masks-kept"))


def _start_rogue(host: Host, run: Journal, guest: Change, cpu: int, children: list[subprocess.Popen[bytes]]) -> int:
    assert guest.kind is ChangeKind.CGROUP
    path = cgroupfs.relative(guest.path)
    stderr = run.directory / "rogue.stderr"
    what = f"inject {FaultId.ROGUE_TASK}"
    mounts = [cgroups.mount_of(host.hierarchy, name) for name in guest.hierarchies]
    process = launch.spawn(
        (sys.executable, "-ISE", str(ROGUE), str(cpu)),
        cpus=None,
        procs=tuple(mount / path / "cgroup.procs" for mount in mounts if mount is not None),
        stderr=stderr,
        what=what,
        directory=run.directory,
    )
    children.append(process)
    started = Started(process.pid, process)
    command = Command(argv=(), comm="pinproof-rogue", workers=0)
    launch.await_ready(started, command, what=what, stderr=stderr)
    return process.pid
