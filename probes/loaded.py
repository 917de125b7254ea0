"""Observers, and loading the probes once for many: compiling takes most of a second here, and many in an emulator.

A ledger is lent to one observer at a time and emptied when it goes back (:meth:`probes.switches.ledger.Ledger.lent`);
whatever an observer keeps in user space ends with it. So nothing that one saw or watched is in another's evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from probes.composition import WITNESSES, new_ledger, unloaded_ledger
from probes.listener import listening
from probes.observer import Made, Observer
from probes.options import ObserveOptions
from probes.subjects import Violation, check_place
from probes.switches.ledger import Ledger
from toolkit.errors import HostUnsupportedError
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy
from toolkit.host.kept_files import MOST_COUNTERS, SHARE_COUNTERS, KeptFiles
from toolkit.model.claims import ClaimSet


@contextmanager
def loaded(
    root: Path = Path("/"),
    options: ObserveOptions | None = None,
    witnesses: Sequence[Made] = WITNESSES,
) -> Iterator[Ledger]:
    """Compile, load and attach the programs; give the ledger to one :func:`observing` after the other.

    :raises HostUnsupportedError: pure cgroup v1, no root, no BPF, no BTF, no bcc.
    """
    unified_hierarchy(root)
    with attached(new_ledger(root, options, witnesses)) as ledger:
        yield ledger


@contextmanager
def observing(
    claims: ClaimSet,
    *,
    root: Path = Path("/"),
    options: ObserveOptions | None = None,
    on_violation: Callable[[Violation], None] | None = None,
    ledger: Ledger | None = None,
    witnesses: Sequence[Made] = WITNESSES,
    kept: KeptFiles | None = None,
) -> Iterator[Observer]:
    """Watch a node's claims while the block runs: programs are loaded and attached, claims published, threads listen.

    :param ledger: loaded already, for ``witnesses``: observers that use it one after the other compile nothing and know
        nothing of each other. ``None``: one of its own.
    :param on_violation: called with each violation as soon as it is reported.
    :param witnesses: what the observer is composed of, in the order in which they read (:mod:`probes.composition`).
    :param kept: reads control files, where another reads them, too, which then closes it. ``None``: one of its own.
    :raises HostUnsupportedError: pure cgroup v1, no root, no BPF, no BTF, no bcc.
    :raises InputError: a claim's cgroup does not exist, or is the root.
    """
    if ledger is not None and options not in (None, ledger.options):
        raise ValueError("the programs were compiled for other options")
    observer = Observer(claims, root, ledger or new_ledger(root, options, witnesses), on_violation)
    observer.hierarchy = unified_hierarchy(root)
    for claim in claims.claims:
        check_place(claim)  # before anything is compiled
    with ExitStack() as stack:
        observer.kept = kept or stack.enter_context(KeptFiles())
        observer.kept_counters = stack.enter_context(KeptFiles(MOST_COUNTERS, SHARE_COUNTERS))
        if ledger is None:
            stack.enter_context(attached(observer.ledger))
        stack.enter_context(observer.ledger.lent())
        observer.begin(tuple(make(observer) for make in witnesses))
        for witness in observer.witnesses:
            stack.enter_context(witness.running())
        stack.enter_context(listening(observer))
        closing = stack.pop_all()
    try:
        yield observer
    finally:
        closing.close()


@contextmanager
def attached(ledger: Ledger) -> Iterator[Ledger]:
    """Open a ledger, and close it when the block ends."""
    ledger.open()
    try:
        yield ledger
    finally:
        ledger.close()


@contextmanager
def attached_or_not(root: Path, options: ObserveOptions, why: str, say: Callable[[str], None]) -> Iterator[Ledger]:
    """Open the ledger of all witnesses; where the kernel does not take it, what stands for it.

    :param why: nothing is to be loaded; empty: it is tried. :param say: called with why nothing is loaded.
    :raises HostUnsupportedError: there is no room for the files of either.
    """
    with ExitStack() as stack:
        ledger = new_ledger(root, options)
        if not why:
            try:
                stack.enter_context(attached(ledger))
            except HostUnsupportedError as error:
                why = str(error)
        if why:
            say(why)
            ledger = unloaded_ledger(root, options, why)
            stack.enter_context(attached(ledger))
        yield ledger


def unified_hierarchy(root: Path) -> Hierarchy:
    """Return the host's cgroup hierarchy.

    :raises HostUnsupportedError: it has no v2 part, so that BPF cannot distinguish cgroups.
    """
    hierarchy = cgroupfs.detect(root)
    hierarchy.identity_root()
    return hierarchy
