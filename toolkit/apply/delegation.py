"""Turn v2 controllers on at the root of the hierarchy, and put everything back afterwards.

Kernels before 6.2 (8f9ea86fdf99 "sched: Always preserve the user requested cpumask") reset the affinity of every task
on the machine when cpuset is turned on or off at the root. No file shows it, so the masks of all tasks are
kept before and those that changed are put back (docs/facts.md K11).

Source: Documentation/admin-guide/cgroup-v2.rst, "Controlling Controllers"; cpuset, "cpuset.cpus".
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.apply import cgroups
from toolkit.apply.journal import Journal, Record, append
from toolkit.apply.run_files import making
from toolkit.errors import ApplyError, InputError
from toolkit.host import procfs
from toolkit.host.cgroup_mounts import Hierarchy, read_control
from toolkit.host.privileges import Cap, require
from toolkit.model.cpuset import CpuSet
from toolkit.regular_file import open_regular

MASKS = "affinities.json"
_KNOWN = frozenset(("cpu", "cpuset", "memory", "io", "pids", "hugetlb", "rdma", "misc", "perf_event", "dmem"))


@dataclass(frozen=True, slots=True)
class TaskMask:
    """The affinity of one task, which its start time distinguishes from a later task of the same number."""

    tid: int
    start_time: int
    cpus: CpuSet


def snapshot(root: Path) -> tuple[TaskMask, ...]:
    """Read the affinity of every thread on the machine."""
    return masks_of((tid for pid in procfs.pids(root) for tid in procfs.tids(pid, root)), root)


def masks_of(tids: Iterable[int], root: Path) -> tuple[TaskMask, ...]:
    """Read the affinity of some threads; those that have ended are left out."""
    return tuple(_masks(tids, root))


def _masks(tids: Iterable[int], root: Path) -> Iterator[TaskMask]:
    for tid in tids:
        began = procfs.start_time(tid, root)
        try:
            cpus = os.sched_getaffinity(tid)
        except OSError:
            continue
        if began is not None:
            yield TaskMask(tid, began, CpuSet.of(cpus))


def restore_masks(root: Path, masks: tuple[TaskMask, ...]) -> tuple[int, int]:
    """Put back the affinities that differ now; return how many were put back, and how many could not be."""
    done = refused = 0
    for mask in masks:
        try:
            if procfs.start_time(mask.tid, root) != mask.start_time:
                continue
            if CpuSet.of(os.sched_getaffinity(mask.tid)) == mask.cpus:
                continue
            os.sched_setaffinity(mask.tid, mask.cpus)
            done += 1
        except ProcessLookupError:
            continue
        except OSError:
            # A worker of a CPU that went offline and came back is bound anew by the kernel, when it has time to.
            refused += not procfs.kernel_binds(mask.tid, root)
    return done, refused


def enable(
    root: Path, hierarchy: Hierarchy, journal: Journal, *, everything: bool, more: tuple[str, ...] = ()
) -> Journal:
    """Turn on what the sandbox needs at the v2 root, journal first.

    :param more: controllers that this sandbox needs beside those that each needs.
    :param everything: write down all controllers that are off, because a container runtime will turn them on.
    """
    if hierarchy.unified is None:
        return journal
    offered = (read_control(hierarchy.unified / "cgroup.controllers") or "").split()
    control = hierarchy.unified / "cgroup.subtree_control"
    enabled = (read_control(control) or "").split()
    off = tuple(name for name in offered if name not in enabled)
    needed = tuple(name for name in off if name in ("cpuset", "cpu", "memory", *more))
    if off if everything else needed:
        journal = append(journal, Record(what="controllers", controllers=off if everything else needed))
    if needed:
        masks = snapshot(root) if "cpuset" in needed else ()
        if masks:
            require("putting back affinity masks that a change of controllers may reset", Cap.SYS_NICE)
            keep(journal.directory, masks)
            journal = append(journal, Record(what="masks-kept"))
        cgroups.write_control(control, " ".join(f"+{name}" for name in needed))
        if masks:
            restore_masks(root, masks)
            journal = append(journal, Record(what="masks-restored"))
    return journal


def undo(root: Path, hierarchy: Hierarchy, journal: Journal, others: tuple[Journal, ...]) -> tuple[str, ...]:
    """Turn off what :func:`enable` turned on, and put masks back; return what could not be done, one line each.

    While another run lives, it inherits the duty: it found the controllers on and needs them.
    """
    problems: list[str] = []
    if journal.find("masks-kept") and not journal.find("masks-restored"):
        problems += _restore(root, load(journal.directory))
    owed = tuple(dict.fromkeys(name for record in journal.find("controllers") for name in record.controllers))
    if not owed or hierarchy.unified is None:
        return tuple(problems)
    if unknown := [name for name in owed if name not in _KNOWN]:
        raise InputError(str(journal.directory), f"controller {unknown[0]!r}", "a cgroup v2 controller")
    if others:
        append(others[0], Record(what="controllers", controllers=owed))
        return tuple(problems)
    control = hierarchy.unified / "cgroup.subtree_control"
    masks = snapshot(root) if "cpuset" in owed else ()
    for name in owed:
        if name not in (read_control(control) or "").split():
            continue
        try:
            cgroups.write_control(control, f"-{name}")
        except ApplyError as error:
            problems.append(f"controller {name} stays on, another uses it by now: {error}")
    problems += _restore(root, masks)
    return tuple(problems)


def _restore(root: Path, masks: tuple[TaskMask, ...]) -> list[str]:
    _, refused = restore_masks(root, masks)
    return [f"the affinity of {refused} tasks could not be put back"] if refused else []


def keep(directory: Path, masks: tuple[TaskMask, ...]) -> None:
    """Write masks down in a run's directory; a record ``masks-kept`` makes them count."""
    rows = [[mask.tid, mask.start_time, str(mask.cpus)] for mask in masks]
    path = directory / MASKS
    with making(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            json.dump(rows, stream)


def load(directory: Path) -> tuple[TaskMask, ...]:
    """Read the masks that a dead run kept.

    :raises InputError: the file is not what :func:`enable` wrote.
    """
    path = directory / MASKS
    try:
        with open_regular(path) as stream:
            found = os.fstat(stream.fileno())
            if found.st_uid != os.geteuid() or found.st_size > 1 << 28:
                raise InputError(str(path), "not a file of our own", "the masks that a run kept")
            rows = json.load(stream)
        return tuple(TaskMask(int(tid), int(began), CpuSet.parse(cpus)) for tid, began, cpus in rows)
    except FileNotFoundError:
        raise InputError(str(path), "missing though the journal names it") from None
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "the masks that a run kept") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InputError(str(path), "not what a run writes", "the masks that a run kept") from None
