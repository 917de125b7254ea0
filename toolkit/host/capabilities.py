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
FOR_PROGRAMS = frozenset(
    ("bpf", "ring-buffer", "raw-tracepoint", "perf-event", "lockdown", "btf", "bcc", "probes", "security-modules")
)
"""What programs in the kernel need: without one of these `watch` does what needs none."""
_SWITCHES = "every switch; `watch` goes on with masks, control files and counters, the other verbs do not begin"
_SAMPLER = "the sampler; `watch` sees a task that never switches when the window ends, the other verbs do not begin"
_VARIANTS = {kind.name: f"run --runtime {kind.name}" for kind in RUNTIMES.values() if kind.program}


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One fact.

    :param detail: what was found, or the cause of the "no". :param remedy: how to get it, empty where it exists.
    :param needed_by: verbs that cannot do all of their work without it; empty: it only makes things better.
    :param lost: what is not seen without it, where that is not the whole verb.
    """

    name: str
    available: bool
    detail: str
    remedy: str = ""
    needed_by: tuple[str, ...] = ()
    lost: str = ""


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

    @property
    def watches_in_part(self) -> bool:
        """Whether ``watch`` goes on without programs in the kernel, with masks, control files and counters."""
        missing = frozenset(self.verbs["watch"])
        return bool(missing & FOR_PROGRAMS) and missing <= FOR_PROGRAMS | {"own-cgroups"}


def read_capabilities(root: Path = Path("/")) -> HostReport:
    """Try everything out on the running kernel; files are looked for below ``root``."""
    tree = SysTree(root)
    hierarchy = _hierarchy(root)
    found = (
        _root(),
        *try_probes(),
        _lockdown(tree),
        _modules(tree),
        _perf_paranoid(tree),
        _unprivileged_bpf(tree),
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
    detail = f"the kernel refuses it: {os.strerror(error)}" if error else "tried, works"
    return _fact(name, error == 0, detail, remedy, _OBSERVE, _SAMPLER if name == "perf-event" else _SWITCHES)


def _lockdown(tree: SysTree) -> Capability:
    """Integrity takes nothing from what we do; confidentiality takes reading kernel memory from programs."""
    text = tree.read("sys/kernel/security/lockdown") or ""
    mode = text.partition("[")[2].partition("]")[0] or "none"
    asked = not bpf_syscalls.try_raw_tracepoint()
    refused = asked and bpf_syscalls.try_kernel_read() != 0
    tried = "cannot be tried" if not asked else "refused" if refused else "tried, works"
    return _fact(
        "lockdown",
        mode != "confidentiality" and not refused,
        f"lockdown mode {mode}; a program that reads kernel memory: {tried}",
        "boot without lockdown=confidentiality: it forbids tracing programs to read kernel memory",
        _OBSERVE,
        _SWITCHES,
    )


def _modules(tree: SysTree) -> Capability:
    """A security module with a policy may refuse what capabilities allow: it is the cause where these are there."""
    active = (tree.read("sys/kernel/security/lsm") or "").strip().split(",")
    strict = [name for name in active if name in _POLICIES]
    label = names.shown((tree.read("proc/self/attr/current") or "").rstrip("\0\n").encode())
    refused = [
        what
        for what, error in (
            ("bpf", bpf_syscalls.try_raw_tracepoint()),
            ("perf_event_open", bpf_syscalls.try_cpu_clock_event(_own_cpu())),
        )
        if error in (errno.EPERM, errno.EACCES)
    ]
    enforced = tree.read(_SELINUX_ENFORCE)
    binding = [name for name in strict if name != "selinux" or enforced != "0"]
    suspected = bool(refused and binding and not lacking(Cap.BPF, Cap.PERFMON))
    detail = f"with a policy: {', '.join(strict) or 'none'}" + (f" (this process: {label})" if strict and label else "")
    if "selinux" in strict:
        mode = _SELINUX_MODES.get(enforced or "", "cannot be read here (a container does not show it)")
        detail += f"; /{_SELINUX_ENFORCE} {mode}"
    return _fact(
        "security-modules",
        not suspected,
        detail + (f"; refused although the capabilities are there: {' and '.join(refused)}" if suspected else ""),
        "; ".join(_POLICIES[name] for name in binding),
        _OBSERVE,
        _SWITCHES,
    )


_SELINUX_ENFORCE = "sys/fs/selinux/enforce"
_SELINUX_MODES = {"1": "is 1: enforcing", "0": "is 0: permissive, it refuses nothing"}
"""What selinuxfs says. Source: selinux(8); kernel, security/selinux/selinuxfs.c (sel_read_enforce)."""

_POLICIES = {
    "selinux": "SELinux: a policy that allows bpf { map_create map_read map_write prog_load prog_run } and perf_event "
    "{ open cpu kernel tracepoint }; of a container label=type:spc_t (seLinuxOptions: {type: spc_t})",
    "apparmor": "AppArmor: a profile with the capabilities bpf and perfmon; of a container apparmor=unconfined "
    "(appArmorProfile: {type: Unconfined})",
    "smack": "Smack: a label that may use them",
    "tomoyo": "TOMOYO: a domain that may use them",
}
"""Modules that have a policy about programs, and what helps."""


def _perf_paranoid(tree: SysTree) -> Capability:
    return _sysctl(
        tree,
        "perf-event-paranoid",
        "kernel/perf_event_paranoid",
        bpf_syscalls.try_cpu_clock_event(_own_cpu()),
        (Cap.PERFMON,),
        _SAMPLER,
    )


def _unprivileged_bpf(tree: SysTree) -> Capability:
    return _sysctl(
        tree,
        "unprivileged-bpf-disabled",
        "kernel/unprivileged_bpf_disabled",
        bpf_syscalls.try_array_map(),
        (Cap.BPF, Cap.PERFMON),
        _SWITCHES,
    )


def _sysctl(tree: SysTree, name: str, place: str, error: int, caps: tuple[Cap, ...], lost: str) -> Capability:
    """Whether a setting that binds those without capabilities binds this process: what it is about is tried."""
    value = (tree.read(f"proc/sys/{place}") or "").strip()
    setting = f"{place.replace('/', '.')} is {names.shown(value.encode()) or 'not there'}"
    binds = error in (errno.EPERM, errno.EACCES) and bool(lacking(*caps)) and value not in ("", "0", "-1")
    detail = f"{setting}; it {'binds' if binds else 'does not bind'} this process"
    # By itself it is no verb's need: the row of what was tried is.
    return _fact(name, not binds, detail, f"{how_to_get(*caps)}: it binds a process that lacks them", (), lost)


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
        return _fact("btf", False, str(error), remedy, _OBSERVE, _SWITCHES)
    there = btf is not None and btf.has_struct("task_struct")
    found = f"/{KERNEL_BTF}" if there else f"no usable /{KERNEL_BTF}"
    return _fact("btf", there, found, remedy, _OBSERVE, _SWITCHES)


def _authors(root: Path) -> Capability:
    """Without it a report states what differs from the promise, but not which task wrote it."""
    remedy = (
        "a kernel with BPF trampolines at functions (x86 5.5, arm64 6.4) and no policy against them; until then `watch "
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
            lost=_AUTHORS,
        )
    error = bpf_syscalls.try_function_return(function)
    detail = f"the kernel refuses a program at a function's return: {os.strerror(error)}" if error else "tried, works"
    return _fact("function-return", error == 0, detail, remedy, lost=_AUTHORS)


_AUTHORS = "which tasks write control files and change affinity masks, and when a move between cgroups began"


def _bcc(root: Path) -> Capability:
    module, cause, remedy = find_bcc(root)
    if module is None:
        return _fact("bcc", False, cause, remedy, _OBSERVE, _SWITCHES)
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


def _fact(
    name: str, available: bool, detail: str, remedy: str, needed_by: tuple[str, ...] = (), lost: str = ""
) -> Capability:
    return Capability(
        name=name,
        available=available,
        detail=detail,
        remedy="" if available else remedy,
        needed_by=needed_by,
        lost="" if available else lost,
    )
