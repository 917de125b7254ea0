"""Make reversible changes, journal first, and undo them: at the normal end as after the death of what made them.

Undoing is exact and careful: a file that holds what it held before is left alone, one that holds what we wrote gets its
old content back, and one that another has written since is theirs: it is named as a problem and not touched.
What the journal of a dead run names is input: only files of the kinds below are ever written.

Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/cpusets.rst; Documentation/core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from pathlib import Path

from toolkit.apply import cgroups, journal, kill
from toolkit.apply.change import ChangeKind, HostChange
from toolkit.apply.journal import Journal, Record
from toolkit.errors import ApplyError, InputError
from toolkit.host import cgroupfs, procfs
from toolkit.host.cgroup_mounts import Hierarchy, read_control
from toolkit.model.cpuset import CpuSet
from toolkit.regular_file import read_regular
from toolkit.text import names

GUEST = "pinproof-guest-"
"""How the name of a cgroup begins that we make among another's."""
STATE_FILES = ("cpu_manager_state", "memory_manager_state")
MAX_STATE_BYTES = 1 << 20
PATIENCE_S = 5.0
INTERRUPT_S = 1.0
_LISTS = ("cpuset.cpus", "cpuset.mems", "smp_affinity_list")
_LIMITS = frozenset(
    (
        *("cpuset.cpus", "cpuset.mems", "cpu.max", "cpu.max.burst", "cpu.weight", "cpu.idle", "memory.max"),
        *("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares", "memory.limit_in_bytes"),
    )
)
_HUGEPAGES = re.compile(r"hugetlb\.\w{1,16}\.(rsvd\.)?max", re.ASCII)
_HOST_FILES = re.compile(r"sys/devices/system/cpu/cpu\d{1,6}/online|proc/irq/\d{1,6}/smp_affinity_list", re.ASCII)


def make(root: Path, hierarchy: Hierarchy, run: Journal, changes: tuple[HostChange, ...]) -> Journal:
    """Write the changes down, then make them in order; the journal that knows them is returned.

    :raises ApplyError: the kernel refused one; those before it stand, and the journal undoes them.
    """
    for change in changes:
        check(root, hierarchy, change)
    run = journal.append(run, Record(what="changes", changes=changes))
    for change in changes:
        _make(hierarchy, change)
    return run


def undo(root: Path, hierarchy: Hierarchy, run: Journal) -> tuple[str, ...]:
    """Take all changes of a run back, the last first; return what could not be taken back, one line each.

    Of a run before the last boot only files on disk are left; numbers of CPUs' files, interrupts and processes mean
    others by now.
    """
    problems: list[str] = []
    same_boot = run.run.boot_id == procfs.boot_id(root)
    for change in reversed([change for record in run.find("changes") for change in record.changes]):
        try:
            check(root, hierarchy, change)
            if same_boot or change.kind is ChangeKind.STATE_FILE:
                problems += _undo(root, hierarchy, change)
        except ApplyError as error:
            problems.append(str(error))
    return tuple(problems)


def check(root: Path, hierarchy: Hierarchy, change: HostChange) -> None:
    """Refuse to touch what no change of ours ever touches.

    :raises InputError: another file, a link, a cgroup that is not a guest of ours.
    """
    if change.kind is ChangeKind.STATE_FILE:
        path = _file(change)
        if "\0" in str(path) or path.name not in STATE_FILES or not path.is_absolute() or ".." in path.parts:
            raise InputError("journal", f"state file {change.path[:200]!r}", " or ".join(STATE_FILES))
    elif change.kind in (ChangeKind.CONTROL, ChangeKind.CONSEQUENCE):
        if not _is_control(root, hierarchy, _file(change)):
            raise InputError("journal", f"control file {change.path[:200]!r}", "a limit of a cgroup, a CPU or an IRQ")
    else:
        guest = change.path if change.kind is ChangeKind.CGROUP else change.after
        if not cgroupfs.relative(guest).rpartition("/")[2].startswith(GUEST):
            raise InputError("journal", f"cgroup {guest[:200]!r}", f"one whose name begins with {GUEST}")
        if change.kind is ChangeKind.MEMBER:
            cgroupfs.relative(change.before)
        for name in change.hierarchies:
            if cgroups.mount_of(hierarchy, name) is None:
                raise InputError("journal", f"hierarchy {name[:40]!r}", "one that this host has")


def _file(change: HostChange) -> Path:
    return Path(names.to_path(change.path))


def _is_control(root: Path, hierarchy: Hierarchy, path: Path) -> bool:
    if "\0" in str(path) or not path.is_absolute() or ".." in path.parts or path.is_symlink():
        return False
    if path.is_relative_to(root) and _HOST_FILES.fullmatch(str(path.relative_to(root))):
        return True
    mounts = [mount for _, mount in hierarchy.legacy] + ([hierarchy.unified] if hierarchy.unified else [])
    limit = path.name in _LIMITS or _HUGEPAGES.fullmatch(path.name) is not None
    return limit and any(path.is_relative_to(mount) and path.parent != mount for mount in mounts)


def _make(hierarchy: Hierarchy, change: HostChange) -> None:
    match change.kind:
        case ChangeKind.CONTROL:
            _write(_file(change), change.after)
        case ChangeKind.STATE_FILE:
            _replace(_file(change), change.after)
        case ChangeKind.CGROUP:
            _make_guest(hierarchy, change)
        case ChangeKind.MEMBER:
            _move(hierarchy, change.hierarchies, (change.pid,), change.after)
        case ChangeKind.CONSEQUENCE:
            """The kernel does it."""


def _undo(root: Path, hierarchy: Hierarchy, change: HostChange) -> list[str]:
    match change.kind:
        case ChangeKind.CONTROL:
            return _restore(change, read_control(_file(change)), _write)
        case ChangeKind.CONSEQUENCE:
            return _restore(change, read_control(_file(change)), _write_patiently)
        case ChangeKind.STATE_FILE:
            with contextlib.suppress(OSError):
                _draft(_file(change)).unlink()
            return _restore(change, read_state(_file(change)), _replace)
        case ChangeKind.CGROUP:
            mounts = [cgroups.mount_of(hierarchy, name) for name in change.hierarchies]
            kill.remove(mount / cgroupfs.relative(change.path) for mount in mounts if mount is not None)
            return []
        case ChangeKind.MEMBER:
            return _bring_back(root, hierarchy, change)


def _restore(change: HostChange, found: str | None, write: object) -> list[str]:
    assert callable(write)
    path = _file(change)
    name = path.name
    if found is None or same(name, found, change.before):
        return []
    if change.kind is not ChangeKind.CONSEQUENCE and not same(name, found, change.after):
        return [f"{change.path}: another program wrote {found.strip()[:80]!r} meanwhile: left alone"]
    if change.via:
        write(path, change.via)
        _await_interrupt(path, change.via)
    write(path, change.before)
    return []


def _await_interrupt(path: Path, wanted: str) -> None:
    """Wait until the hardware has followed, which it does when the interrupt comes next; a rare one may stay behind."""
    deadline = time.monotonic() + INTERRUPT_S
    while (used := read_control(path.with_name("effective_affinity_list"))) is not None:
        if same("smp_affinity_list", used, wanted) or time.monotonic() > deadline:
            return
        time.sleep(0.01)


def same(name: str, one: str, other: str) -> bool:
    """Return whether two contents of a file mean the same (``0,1`` and ``0-1`` do in a CPU list)."""
    if name in _LISTS:
        try:
            return CpuSet.parse(one, name) == CpuSet.parse(other, name)
        except InputError:
            return False
    return one == other if name in STATE_FILES else one.split() == other.split()


def _write(path: Path, text: str) -> None:
    # Writing nothing at all would not reach the kernel: an empty value is an empty line.
    cgroups.write_control(path, text if text.strip() else "\n")


def _write_patiently(path: Path, text: str) -> None:
    """Write once the kernel lets us: before 6.10 cpusets learn a little late of a CPU that came back."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _write(path, text)
        except ApplyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def read_state(path: Path) -> str | None:
    """Read a state file of the kubelet; ``None`` if there is none.

    :raises InputError: a link, no regular file, too large, not UTF-8.
    """
    try:
        return read_regular(path, MAX_STATE_BYTES).decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a state file of the kubelet") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "not UTF-8 text", "a state file of the kubelet") from None


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.pinproof")


def _replace(path: Path, text: str) -> None:
    """Replace a file as the kubelet does (write aside, sync, rename), owner and mode kept."""
    try:
        old = path.stat(follow_symlinks=False)
        draft = _draft(path)
        draft.unlink(missing_ok=True)  # of something that was killed
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(text.encode())
                os.fchown(descriptor, old.st_uid, old.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
                stream.flush()
                os.fsync(descriptor)
            draft.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
    except OSError as error:
        raise ApplyError(f"{path}: cannot be replaced ({error.strerror})") from None


def _make_guest(hierarchy: Hierarchy, change: HostChange) -> None:
    path = cgroupfs.relative(change.path)
    for name in change.hierarchies:
        mount = cgroups.mount_of(hierarchy, name)
        assert mount is not None
        directory = mount / path
        try:
            directory.mkdir(mode=0o755)
        except OSError as error:
            raise ApplyError(f"{directory}: cannot make the cgroup ({error.strerror})") from None
        if name != cgroups.UNIFIED and (directory / "cpuset.cpus").exists():
            # v1 refuses tasks in a cpuset without CPUs or nodes (K16).
            for file in ("cpuset.mems", "cpuset.cpus"):
                cgroups.write_control(directory / file, (read_control(directory.parent / file) or "").strip())


def _move(hierarchy: Hierarchy, names: tuple[str, ...], pids: tuple[int, ...], cgroup: str) -> None:
    path = cgroupfs.relative(cgroup)
    for pid in pids:
        for name in names:
            mount = cgroups.mount_of(hierarchy, name)
            assert mount is not None
            try:
                cgroups.write_control(mount / path / "cgroup.procs", str(pid))
            except ApplyError:
                if procfs.start_time(pid, hierarchy.root) is not None:
                    raise


def _bring_back(root: Path, hierarchy: Hierarchy, change: HostChange) -> list[str]:
    """Move the process back with all children that it has had in our cgroup, where its own still exists."""
    if not cgroupfs.exists(hierarchy, change.before):
        return []
    pids = set(cgroupfs.pids(hierarchy, change.after))
    if procfs.start_time(change.pid, root) == change.start_time:
        pids.add(change.pid)
    _move(hierarchy, change.hierarchies, tuple(sorted(pids)), change.before)
    return []
