"""Begin and end runs: the one place that undoes what a run made, on its normal end as after its death.

Nothing is removed but ``/pinproof-<run_id>`` and ``/pinproof-<run_id>-runtime`` in the hierarchies that the run's
journal names, the run's own directory, v2 controllers that the journal says were turned on, and the changes
(:mod:`toolkit.apply.changes`) that it names.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from toolkit.apply import cgroups, changes, delegation, journal, kill
from toolkit.apply.journal import Journal
from toolkit.apply.unwind import signals_wait
from toolkit.errors import ApplyError, InputError, PinproofError
from toolkit.host import cgroupfs, procfs
from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.model.runtimes import RUNTIMES
from toolkit.model.serde import stage_value

_UMOUNT_DETACH_NOFOLLOW = 2 | 8


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport:
    """What a clean-up did.

    :param removed: runs that are gone without a trace. :param alive: runs that still work, left alone.
    :param problems: what could not be undone or was refused, one line each.
    """

    removed: tuple[str, ...] = ()
    alive: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def top(run_id: str) -> str:
    """Return the cgroup below which everything of a run is."""
    return f"/pinproof-{run_id}"


def manager(run_id: str) -> str:
    """Return the cgroup in which the container runtime's own processes are, outside of what is watched."""
    return f"{top(run_id)}{journal.RUNTIME_SUFFIX}"


def begin(
    root: Path,
    hierarchy: Hierarchy,
    run_id: str,
    *,
    runtime: str,
    more: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
) -> tuple[Journal, CleanupReport]:
    """Clean dead runs up, then write the new run's journal; nothing else is made yet.

    :param more: v2 controllers that this sandbox needs beside those that each needs.
    :param only: hierarchies that this run uses alone, without any controller; nothing is turned on then.
    :raises InputError: the run id is in use, or cgroups of that name exist that no journal names.
    """
    journal.check_run_id(run_id)
    everything = bool(RUNTIMES[runtime].program)
    names = only or cgroups.hierarchies(hierarchy, everything=everything)
    with journal.locked(root):
        report = _sweep(root, hierarchy)
        for name in names:
            for cgroup in (top(run_id), manager(run_id)):
                mount = cgroups.mount_of(hierarchy, name)
                if mount is not None and os.path.lexists(mount / cgroup[1:]):
                    raise InputError("run id", f"{mount / cgroup[1:]} exists already", "another run id")
        created = journal.create(root, run_id, names)
        if only:
            return created, report
        try:
            return delegation.enable(root, hierarchy, created, everything=everything, more=more), report
        except BaseException:
            with signals_wait():
                _undo(root, hierarchy, journal.read(created.directory) or created)
            journal.release(created)
            raise


def end(root: Path, hierarchy: Hierarchy, run: Journal) -> None:
    """Undo everything that a run made. Signals wait for it: a second one asks for haste, not for a broken host.

    :raises ApplyError: something is left; the journal stays for another attempt.
    """
    with signals_wait():
        try:
            with journal.locked(root):
                # Another run may have handed its controllers down to this one.
                problems = _undo(root, hierarchy, journal.read(run.directory) or run)
        finally:
            journal.release(run)
    if problems:
        raise ApplyError("; ".join(problems))


def cleanup(root: Path = Path("/")) -> CleanupReport:
    """Undo all runs whose process is gone; runs that live are left alone.

    :raises ApplyError: the runs' directory cannot be used.
    """
    if not os.path.lexists(journal.runs_directory(root)):
        return CleanupReport()
    hierarchy = cgroupfs.detect(root)
    with journal.locked(root):
        return _sweep(root, hierarchy)


def _sweep(root: Path, hierarchy: Hierarchy) -> CleanupReport:
    removed: list[str] = []
    alive: list[str] = []
    problems: list[str] = []
    for entry in sorted(journal.runs_directory(root).iterdir()):
        try:
            found = journal.read(entry)
            if found is None:
                _remove_unborn(entry)
                removed.append(entry.name)
            elif found.alive(root):
                alive.append(entry.name)
            elif left := _undo(root, hierarchy, found):
                problems += (f"{entry.name}: {line}" for line in left)
            else:
                removed.append(entry.name)
        except PinproofError as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{entry}: {error.strerror}")
    return CleanupReport(removed=tuple(removed), alive=tuple(alive), problems=tuple(problems))


def _remove_unborn(directory: Path) -> None:
    """Remove the directory of a run that died before its journal existed, hence before anything else did."""
    (directory / f"{journal.JOURNAL}.new").unlink(missing_ok=True)
    try:
        directory.rmdir()
    except OSError as error:
        raise InputError(str(directory), f"no journal, but {error.strerror}", "a run's directory") from None


def _undo(root: Path, hierarchy: Hierarchy, run: Journal) -> tuple[str, ...]:
    mounts = tuple(dict.fromkeys(_mount(hierarchy, run, name) for name in run.run.hierarchies))
    # The runtime's own processes first: they could still make cgroups and containers.
    for cgroup in (manager(run.run_id), top(run.run_id)):
        kill.remove(mount / cgroup[1:] for mount in mounts)
    problems = (*changes.undo(root, hierarchy, run), *delegation.undo(root, hierarchy, run, _others(root, run)))
    if not problems:
        _remove_directory(root, run.directory)
    return problems


def _mount(hierarchy: Hierarchy, run: Journal, name: str) -> Path:
    found = cgroups.mount_of(hierarchy, name)
    if found is None:
        raise InputError(str(run.directory / journal.JOURNAL), f"hierarchy {name[:40]!r}", "one that this host has")
    return found


def _others(root: Path, run: Journal) -> tuple[Journal, ...]:
    found: list[Journal] = []
    for entry in sorted(journal.runs_directory(root).iterdir()):
        try:
            other = journal.read(entry) if entry != run.directory else None
        except InputError:
            continue
        if other is not None and other.alive(root):
            found.append(other)
    return tuple(found)


def _remove_directory(root: Path, directory: Path) -> None:
    """Remove a run's directory, never through a mount."""
    below = [point for point in _mounts_below(root, directory) if _unmount(point) is not None]
    if below:
        raise ApplyError(f"{below[0]}: still mounted, so {directory} is kept")
    try:
        # The journal goes last: while anything is left, it is known whose it is.
        for entry in sorted(directory.iterdir(), key=lambda path: path.name == journal.JOURNAL):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        directory.rmdir()
    except OSError as error:
        raise ApplyError(f"{directory}: cannot be removed ({error.strerror})") from None


def _mounts_below(root: Path, directory: Path) -> list[str]:
    below = f"{os.path.realpath(directory)}/"
    return [point for point in reversed(procfs.mount_points(root)) if point.startswith(below)]


def _unmount(point: str) -> str | None:
    """Detach a mount; return its path if that is refused."""
    libc = ctypes.CDLL(None, use_errno=True)
    return None if libc.umount2(os.fsencode(point), _UMOUNT_DETACH_NOFOLLOW) == 0 else point
