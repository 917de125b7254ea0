"""Which CPUs irqbalance keeps interrupts away from, as a machine's files say it. Reads only.

The environment of the process that runs is what it obeys; where that cannot be read, that of its systemd unit with
drop-ins; where there is no unit, the file that an init script reads. ``IRQBALANCE_BANNED_CPUS`` (a mask) wins over
``IRQBALANCE_BANNED_CPULIST`` (a list of numbers and ranges) where it is not empty; without both the CPUs that the
kernel isolates are left out. A value that irqbalance cannot read bans nothing, or a part: that is not known here.

Source: irqbalance(1); systemd.unit(5), systemd.exec(5) (``Environment=``, ``EnvironmentFile=``); which variable wins,
and what of a list is read, was tried with irqbalance 1.9.2 (docs/isolation.md).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolkit.errors import InputError
from toolkit.host.sysfs import SysTree
from toolkit.model.cpuset import CpuSet
from toolkit.model.isolation import Irqbalance

NAME = "irqbalance"
UNIT = f"{NAME}.service"
UNIT_FOLDERS = (
    *("etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system"),
    *("usr/lib/systemd/system", "lib/systemd/system"),
)
"""In the order in which systemd takes the first of a name."""
SHELL_FILES = ("etc/default/irqbalance", "etc/sysconfig/irqbalance")
MASK, LIST = "IRQBALANCE_BANNED_CPUS", "IRQBALANCE_BANNED_CPULIST"
MAX_PROCESSES = 20_000
_LIST = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*", re.ASCII)
_NO_CPU = "-"
"""What CRI-O writes for an empty list."""
_ASSIGNED = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Environment:
    """Variables and where they stand. :param problem: why they are not known; empty: they are."""

    values: Mapping[str, str]
    where: str
    problem: str = ""


def read_irqbalance(tree: SysTree) -> Irqbalance | None:
    """Return what is known of irqbalance; ``None``: whether it runs is not known, as in a tree without processes."""
    if not tree.exists("proc/cmdline"):
        return None
    pids = tree.numbered("proc", "")[:MAX_PROCESSES]
    pid = next((pid for pid in pids if tree.name(f"proc/{pid}/comm") == NAME), None)
    if pid is None:
        return Irqbalance(runs=False)
    found = _of_process(tree, pid) or _of_unit(tree) or _of_shell(tree)
    if found.problem:
        return Irqbalance(runs=True, where=found.where, problem=found.problem)
    return _banned(found)


def _banned(found: _Environment) -> Irqbalance:
    mask, listed = (found.values.get(name, "").strip() for name in (MASK, LIST))
    name, text = (MASK, mask) if mask else (LIST, listed)
    if not text:
        return Irqbalance(runs=True, where=found.where)
    value = f"{name}={text}" + (f", which wins over {LIST}={listed}" if mask and listed else "")
    try:
        if name == MASK:
            if "x" in text.lower():
                raise InputError(name, text, "hexadecimal digits without 0x")
            cpus = CpuSet.parse_mask(text, name)
        else:
            if text != _NO_CPU and not _LIST.fullmatch(text):
                raise InputError(name, text, "numbers and ranges such as 2-7,9")
            cpus = CpuSet() if text == _NO_CPU else CpuSet.parse(text, name)
    except InputError as error:
        problem = f"irqbalance cannot read all of it: expected {error.expected}"
        return Irqbalance(runs=True, where=found.where, value=value, problem=problem)
    return Irqbalance(runs=True, where=found.where, value=value, banned=cpus)


def _of_process(tree: SysTree, pid: int) -> _Environment | None:
    """Return the environment that the running process was started with; ``None``: it cannot be read."""
    path = f"proc/{pid}/environ"
    text = tree.read(path)
    if not text:
        return None
    pairs = (entry.partition("=") for entry in text.split("\0"))
    return _Environment(values={name: value for name, _, value in pairs}, where=f"/{path}")


def _of_unit(tree: SysTree) -> _Environment | None:
    """Return what systemd starts it with; ``None``: it has no unit here."""
    files = [path for folder in UNIT_FOLDERS if tree.exists(path := f"{folder}/{UNIT}")][:1]
    drop_ins: dict[str, str] = {}
    for folder in UNIT_FOLDERS:
        for name in tree.names(f"{folder}/{UNIT}.d"):
            if name.endswith(".conf"):
                drop_ins.setdefault(name, f"{folder}/{UNIT}.d/{name}")
    files += [drop_ins[name] for name in sorted(drop_ins)]
    if not files:
        return None
    own: dict[str, str] = {}
    named: list[str] = []
    away: set[str] = set()
    where = f"/{files[0]}"
    for path in files:
        text = tree.read(path)
        if text is None:
            return _Environment(values={}, where=f"/{path}", problem="the file cannot be read")
        for key, value in _service_lines(text):
            try:
                words = shlex.split(value)
            except ValueError:
                return _Environment(values={}, where=f"/{path}", problem=f"{key}= has a quote that does not end")
            if key == "EnvironmentFile":
                named = [*named, value] if value else []
            elif key == "Environment":
                own = own | dict(word.split("=", 1) for word in words if "=" in word) if value else {}
                where = f"/{path}" if any(word.startswith((f"{MASK}=", f"{LIST}=")) for word in words) else where
            elif key == "UnsetEnvironment":
                away = away | set(words) if value else set()
    return _with_files(tree, own, named, away, where)


def _with_files(tree: SysTree, own: dict[str, str], named: list[str], away: set[str], where: str) -> _Environment:
    """Add what ``EnvironmentFile=`` names, which goes over ``Environment=``."""
    values = dict(own)
    for name in named:
        path = name.removeprefix("-").lstrip("/")
        if any(sign in path for sign in "%*?["):
            return _Environment(values={}, where=where, problem=f"EnvironmentFile={name} is not followed")
        text = tree.read(path)
        if text is None and tree.exists(path):
            return _Environment(values={}, where=f"/{path}", problem="the file cannot be read")
        found = dict(_assignments(text or "", exported=False))
        where = f"/{path}" if {MASK, LIST} & set(found) else where
        values |= found
    kept = {name: value for name, value in values.items() if name not in away and f"{name}={value}" not in away}
    return _Environment(values=kept, where=where)


def _of_shell(tree: SysTree) -> _Environment:
    values: dict[str, str] = {}
    where = NAME
    for path in SHELL_FILES:
        text = tree.read(path)
        if text is None:
            if tree.exists(path):
                return _Environment(values={}, where=f"/{path}", problem="the file cannot be read")
            continue
        found = dict(_assignments(text, exported=True))
        where = f"/{path}" if {MASK, LIST} & set(found) else where
        values |= found
    return _Environment(values=values, where=where)


def _joined(text: str) -> Iterator[str]:
    """Yield the lines of a file of systemd: those that end with a backslash go on in the next; no comments."""
    pending = ""
    for line in text.splitlines():
        if line.lstrip().startswith(("#", ";")):
            continue
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _service_lines(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in _joined(text):
        stripped = line.strip()
        if stripped.startswith("["):
            section = stripped
        elif section == "[Service]" and "=" in stripped:
            key, _, value = stripped.partition("=")
            yield key.strip(), value.strip()


def _assignments(text: str, *, exported: bool) -> Iterator[tuple[str, str]]:
    """Yield the variables of a file. :param exported: a shell reads it, in which ``export`` is a word."""
    for line in _joined(text):
        match = _ASSIGNED.fullmatch(line)
        if match is None or (not exported and line.lstrip().startswith("export")):
            continue
        value = match[2].strip()
        try:
            words = shlex.split(value, comments=exported)
        except ValueError:
            words = [value]
        yield match[1], " ".join(words[:1] if exported else words)
