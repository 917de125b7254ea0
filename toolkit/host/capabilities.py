"""What this host can do for pinproof, each "no" with its cause and how to get it, and which verbs that leaves.

The kernel is asked by doing the thing (create the map, attach the program, open the event) wherever that is harmless;
a version number or a configuration option answers nothing here.

Source: bpf(2), perf_event_open(2), kernel_lockdown(7), Documentation/admin-guide/cgroup-v2.rst; docs/principles.md.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from toolkit import presence
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.host import bpf_syscalls, limits
from toolkit.host.bcc_package import find_bcc
from toolkit.host.btf import KERNEL_BTF, Btf
from toolkit.host.cgroup_mounts import V1_ONLY, V2_REMEDY, Hierarchy, Mode, detect
from toolkit.host.namespaces import read_views
from toolkit.host.privileges import Cap, held, how_to_get, lacking, why_no_cgroup
from toolkit.host.runtimes import others, unfit
from toolkit.host.sysfs import SysTree
from toolkit.model.runtimes import RUNTIMES, RuntimeKind
from toolkit.model.serde import stage_value
from toolkit.text import names
from toolkit.verbs import VERBS, Need

_APPLY, _OBSERVE = (
    tuple(name for name, verb in VERBS.items() if verb.needs >= need) for need in (Need.APPLY, Need.OBSERVE)
)
_VARIANTS = {kind.name: f"run --runtime {kind.name}" for kind in RUNTIMES.values() if kind.program}


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One fact.

    :param detail: what was found, or the cause of the "no". :param remedy: how to get it, empty where it exists.
    :param needed_by: verbs that cannot work without it; empty: it only makes things better.
    """

    name: str
    available: bool
    detail: str
    remedy: str = ""
    needed_by: tuple[str, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """All facts; ``verbs``: verb -> names of the capabilities that it lacks (empty: it works)."""

    capabilities: tuple[Capability, ...]
    verbs: dict[str, tuple[str, ...]]

    @property
    def can_run(self) -> bool:
        """Whether the main job works here."""
        return not self.verbs["run"]


def read_capabilities(root: Path = Path("/")) -> HostReport:
    """Try everything out on the running kernel; files are looked for below ``root``."""
    tree = SysTree(root)
    hierarchy = _hierarchy(root)
    found = (
        _root(),
        *try_probes(),
        _lockdown(tree),
        _memlock(),
        _btf(root),
        _authors(root),
        _bcc(root),
        _cgroup(hierarchy),
        *views(hierarchy, root),
        own_cgroups(hierarchy),
        _controller(hierarchy, "cpuset"),
        _controller(hierarchy, "cpu"),
        _controller(hierarchy, "memory", needed_by=()),
        _tracefs(root),
        *(_runtime(kind, hierarchy) for kind in RUNTIMES.values() if kind.program),
        _program("stress-ng", "--version", ()),
        _grpc(),
    )
    return HostReport(capabilities=found, verbs=working_verbs(found))


def try_probes() -> tuple[Capability, ...]:
    """Ask the running kernel for everything that the probes are made of.

    This process may open more files from here on, where it may raise its own limit.
    """
    limits.widen()
    return (
        _fact("open-files", limits.enough_files(), limits.files_found(), limits.files_remedy(), _OBSERVE),
        _asked("bpf", bpf_syscalls.try_array_map(), "CONFIG_BPF_SYSCALL=y", Cap.BPF),
        _asked("ring-buffer", bpf_syscalls.try_ring_buffer(), "a kernel with BPF ring buffers (5.8)", Cap.BPF),
        _asked("raw-tracepoint", bpf_syscalls.try_raw_tracepoint(), "CONFIG_BPF_EVENTS=y", Cap.BPF, Cap.PERFMON),
        _asked("perf-event", bpf_syscalls.try_cpu_clock_event(_own_cpu()), "CONFIG_PERF_EVENTS=y", Cap.PERFMON),
    )


def views(hierarchy: Hierarchy | None, root: Path = Path("/")) -> tuple[Capability, ...]:
    """Whether we see what the probes see."""
    return tuple(
        _fact(view.name, not view.wrong, view.wrong or "the host's", view.remedy, _OBSERVE)
        for view in read_views(hierarchy, root)
    )


def working_verbs(capabilities: tuple[Capability, ...]) -> dict[str, tuple[str, ...]]:
    """Return each verb with the capabilities that it needs and that are missing, and variants that need more."""
    missing = [capability for capability in capabilities if not capability.available]
    # A variant ("run --runtime runc") needs what its verb needs, and more.
    return {
        verb: tuple(c.name for c in missing if verb in c.needed_by or verb.split(" --runtime")[0] in c.needed_by)
        for verb in (*VERBS, *_VARIANTS.values())
    }


def own_cgroups(hierarchy: Hierarchy | None) -> Capability:
    """Whether a cgroup of our own can be made: the canaries of every observation are in two."""
    where = None if hierarchy is None else hierarchy.unified
    if where is None:
        return _fact("own-cgroups", False, "there is no cgroup v2 hierarchy to make one in", V2_REMEDY, _OBSERVE)
    cause, remedy = why_no_cgroup(where)
    return _fact("own-cgroups", not cause, cause or f"can be made in {where}", remedy, _OBSERVE)


def _root() -> Capability:
    uid, own = os.geteuid(), held()
    missing = ", ".join(str(cap) for cap in Cap if cap not in own)
    detail = f"effective user id {uid}; of the capabilities that matter it has " + (
        f"all but {missing}" if missing and own else "none" if missing else "all"
    )
    return _fact("root", uid == 0, detail, "run with sudo", tuple(_VARIANTS.values()))


def _asked(name: str, error: int, how: str, *caps: Cap) -> Capability:
    short = limits.shortage(OSError(error, os.strerror(error)))
    if short:
        return _fact(name, False, short, limits.files_remedy(), _OBSERVE)
    if error not in (errno.EPERM, errno.EACCES):
        remedy = f"needs {how}"
    elif missing := lacking(*caps):
        remedy = how_to_get(*missing)
    else:
        remedy = (
            f"{' and '.join(map(str, caps))} it has: a seccomp filter, a security module or a user namespace is in the "
            "way; in a container: --security-opt seccomp=unconfined"
        )
    return _fact(
        name, error == 0, f"the kernel refuses it: {os.strerror(error)}" if error else "tried, works", remedy, _OBSERVE
    )


def _lockdown(tree: SysTree) -> Capability:
    text = tree.read("sys/kernel/security/lockdown") or ""
    mode = text.partition("[")[2].partition("]")[0] or "none"
    return _fact(
        "lockdown",
        mode != "confidentiality",
        f"lockdown mode {mode}",
        "boot without lockdown=confidentiality: it forbids tracing programs to read kernel memory",
        _OBSERVE,
    )


def _memlock() -> Capability:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    remedy = "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service"
    if soft == resource.RLIM_INFINITY or soft >= 64 << 20:
        return _fact("memlock", True, "unlimited" if soft == resource.RLIM_INFINITY else f"{soft} bytes", remedy)
    # Kernels that charge maps to the memory cgroup ("bpf: Eliminate rlimit-based memory accounting infra", 2020) let
    # a map be larger than the limit: try it.
    if bpf_syscalls.try_array_map():
        return _fact("memlock", True, f"{soft} bytes; cannot be tried without bpf", remedy)
    page = resource.getpagesize()
    error = bpf_syscalls.try_array_map(value_bytes=page, entries=soft // page + 16)
    effect = "does not bind BPF maps" if error == 0 else f"a larger map fails: {os.strerror(error)}"
    return _fact("memlock", error == 0, f"{soft} bytes; {effect}", remedy)


def _btf(root: Path) -> Capability:
    remedy = "a kernel built with CONFIG_DEBUG_INFO_BTF=y"
    try:
        btf = Btf.of_kernel(root)
    except InputError as error:
        return _fact("btf", False, str(error), remedy, _OBSERVE)
    there = btf is not None and btf.has_struct("task_struct")
    return _fact("btf", there, f"/{KERNEL_BTF}" if there else f"no usable /{KERNEL_BTF}", remedy, _OBSERVE)


def _authors(root: Path) -> Capability:
    """Without it a report states what differs from the promise, but not which task wrote it."""
    remedy = (
        "a kernel with BPF trampolines (x86 5.5, arm64 6.0) and no policy against them; until then `watch "
        "--trace-syscalls` names which tasks write control files and change masks, at some 35 ns for every system "
        "call of the machine (x86)"
    )
    try:
        btf = Btf.of_kernel(root)
    except InputError:
        btf = None
    function = None if btf is None else btf.function_id(bpf_syscalls.CONTROL_FILE_WRITE)
    if function is None:
        return _fact(
            "function-return",
            False,
            f"the kernel's type information has no {bpf_syscalls.CONTROL_FILE_WRITE}()",
            remedy,
        )
    error = bpf_syscalls.try_function_return(function)
    blind = f"not seen: which tasks write control files and change affinity masks; the kernel: {os.strerror(error)}"
    return _fact("function-return", error == 0, blind if error else "tried, works", remedy)


def _bcc(root: Path) -> Capability:
    module, cause, remedy = find_bcc(root)
    if module is None:
        return _fact("bcc", False, cause, remedy, _OBSERVE)
    return _fact("bcc", True, f"version {getattr(module, '__version__', 'unknown')}", remedy, _OBSERVE)


def _hierarchy(root: Path) -> Hierarchy | None:
    try:
        return detect(root)
    except HostUnsupportedError:
        return None


def _cgroup(hierarchy: Hierarchy | None) -> Capability:
    if hierarchy is None:
        return _fact("cgroup2", False, "no cgroup file system is mounted", V2_REMEDY, _OBSERVE)
    if hierarchy.mode is Mode.V1:
        return _fact("cgroup2", False, V1_ONLY, V2_REMEDY, _OBSERVE)
    return _fact("cgroup2", True, f"{hierarchy.mode.value}, at {hierarchy.unified}", "", _OBSERVE)


def _controller(hierarchy: Hierarchy | None, name: str, needed_by: tuple[str, ...] = _APPLY) -> Capability:
    mount = None if hierarchy is None else hierarchy.find_controller(name)
    detail = f"at {mount}" if mount else "no mounted hierarchy offers it"
    remedy = f"boot without cgroup_disable={name}; in a container, give it the host's cgroup tree"
    return _fact(f"{name}-controller", mount is not None, detail, remedy, needed_by)


def _tracefs(root: Path) -> Capability:
    places = ("sys/kernel/tracing/events", "sys/kernel/debug/tracing/events")
    place = next((place for place in places if presence.is_dir(root / place)), None)
    if place is not None:
        return _fact("tracefs", True, f"/{place}", "")
    # systemd mounts it with mode 0700: an ordinary user is not told whether it is there.
    if any(presence.is_hidden(root / place) for place in places):
        return _fact("tracefs", False, "only root may look; the probes do without it", "run with sudo")
    detail = "not mounted; the probes do without it"
    return _fact("tracefs", False, detail, "mount -t tracefs tracefs /sys/kernel/tracing")


def _grpc() -> Capability:
    """Without it the claims of a kubelet's node come from its files alone."""
    remedy = "pip install 'pinproof[kubelet]' (for the sockets of a kubelet's node)"
    try:
        return _fact("grpcio", True, importlib.metadata.version("grpcio"), remedy)
    except importlib.metadata.PackageNotFoundError:
        return _fact("grpcio", False, "not installed", remedy)


def _program(name: str, version_option: str, needed_by: tuple[str, ...]) -> Capability:
    path = shutil.which(name)
    if path is None:
        return _fact(name, False, "not on PATH", f"apt install {name} (or dnf install {name})", needed_by)
    try:
        done = subprocess.run([path, version_option], capture_output=True, timeout=10, check=False)
        # Without how it was built, in brackets (stress-ng).
        version = names.shown((done.stdout or done.stderr).partition(b"\n")[0].partition(b" (")[0])[:60]
    except (OSError, subprocess.SubprocessError) as error:
        return _fact(name, False, f"{path} does not run: {error}", f"install {name} anew", needed_by)
    works = done.returncode == 0
    return _fact(name, works, f"{path}: {version or 'no version'}", f"install {name} anew", needed_by)


def _runtime(kind: RuntimeKind, hierarchy: Hierarchy | None) -> Capability:
    found = _program(kind.program, "--version", (_VARIANTS[kind.name],))
    problem = "" if hierarchy is None else unfit(kind, hierarchy)
    if found.available and problem:
        return _fact(kind.name, False, f"{found.detail}; {problem}", others(), found.needed_by)
    return found


def _own_cpu() -> int:
    return min(os.sched_getaffinity(0))


def _fact(name: str, available: bool, detail: str, remedy: str, needed_by: tuple[str, ...] = ()) -> Capability:
    return Capability(
        name=name, available=available, detail=detail, remedy="" if available else remedy, needed_by=needed_by
    )
