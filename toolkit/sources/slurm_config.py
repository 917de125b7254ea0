"""What a Slurm node confines its jobs to: ``cgroup.conf`` and ``slurm.conf``.

Source: cgroup.conf(5); slurm.conf(5) ("TaskPlugin", "SlurmdParameters", "NODE CONFIGURATION"); Slurm 22.05.8
src/common/parse_config.c, src/common/read_config.h (``DEFAULT_TASK_PLUGIN``),
src/plugins/task/cgroup/task_cgroup_memory.c (``mem_limit_in_bytes``, ``swap_limit_in_bytes``), 23.02 where it differs.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolkit import presence
from toolkit.regular_file import read_bytes
from toolkit.sources.hostlist import names_host
from toolkit.sources.places import Places

FOLDERS = ("/etc/slurm", "/etc/slurm-llnl", "/run/slurm/conf", "/usr/local/etc")
"""Where the files are: Slurm's usual places, and where a slurmd keeps what the controller gave it."""
CGROUP_CONF, SLURM_CONF = "cgroup.conf", "slurm.conf"
MIB = 1 << 20
MAX_THREADS = 1 << 16
MAX_FILES = 64
"""How many files one may include."""
_PAIR = re.compile(r"\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:\"([^\"]*)\"|(\S+))(?=\s|$)", re.ASCII)
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_YES, _NO = frozenset(("yes", "up", "true", "1")), frozenset(("no", "down", "false", "0"))
_SHAPE = frozenset(("boards", "sockets", "socketsperboard", "corespersocket", "threadspercore"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """This node's definition. :param threads: ``ThreadsPerCore``; ``None``: only ``CPUs`` is defined, or nothing.

    :param cpus: ``CPUs`` where only they are. :param memory_mib: ``RealMemory``.
    """

    threads: int | None = None
    cpus: int | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConfig:
    """What the files say, keys in lower case.

    :param found: name of a file -> where it was found. :param problems: name of a file -> why it could not be read.
    """

    cgroup: Mapping[str, str] = field(default_factory=dict)
    slurm: Mapping[str, str] = field(default_factory=dict)
    node: Node = field(default_factory=Node)
    found: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def yes(self, key: str) -> bool:
        """Whether a switch of ``cgroup.conf`` is on; each is off where nothing sets it."""
        return self.cgroup.get(key.lower(), "no").lower() in _YES

    def why_not(self, key: str) -> str:
        """Return why a switch is not on, with the file that says so."""
        if CGROUP_CONF in self.problems:
            return f"{key} is not known ({self.problems[CGROUP_CONF]})"
        where = self.found.get(CGROUP_CONF)
        if where is None:
            return f"{key} is not set (there is no {FOLDERS[0]}/{CGROUP_CONF}; the default is no)"
        text = self.cgroup.get(key.lower())
        if text is None:
            return f"{key} is not set in {where} (the default is no)"
        return f"{key}={text[:20]} in {where}" + ("" if text.lower() in _NO else ", which is neither yes nor no")

    @property
    def task_plugins(self) -> tuple[str, ...] | None:
        """``TaskPlugin``, in parts; ``None``: not set, as far as the files were read."""
        text = self.slurm.get("taskplugin")
        return None if text is None else tuple(part.strip().lower() for part in text.split(",") if part.strip())

    @property
    def binds_by_mask(self) -> bool:
        """Whether tasks are bound by their masks."""
        return "task/affinity" in (self.task_plugins or ())

    def parameter(self, word: str) -> bool:
        """Whether a word is among ``SlurmdParameters``."""
        return word in self.slurm.get("slurmdparameters", "").lower()


def read_config(places: Places, node: str) -> SlurmConfig:
    """Read the files of the first folder that has one. :param node: this node's name in Slurm."""
    texts: dict[str, list[str]] = {}
    found: dict[str, str] = {}
    problems: dict[str, str] = {}
    for folder in FOLDERS:
        for name in (CGROUP_CONF, SLURM_CONF):
            path = places.target(places.below(f"{folder}/{name}"))
            data, problem = read_bytes(path)
            if data is not None:
                found[name] = f"{folder}/{name}"
                texts[name] = list(_lines(data, Path(folder), places, problems, name, [MAX_FILES]))
            elif presence.exists(path):
                problems[name] = f"{folder}/{name}: {problem}"
        if found or problems:
            break
    return SlurmConfig(
        cgroup=_values(texts.get(CGROUP_CONF, [])),
        slurm=_values(texts.get(SLURM_CONF, [])),
        node=_node(texts.get(SLURM_CONF, []), node),
        found=found,
        problems=problems,
    )


def _lines(
    data: bytes, folder: Path, places: Places, problems: dict[str, str], name: str, left: list[int]
) -> Iterator[str]:
    """Yield the lines, without comments, joined where they go on, with those of included files in their place."""
    text = data.decode("utf-8", "replace").replace("\\\r\n", " ").replace("\\\n", " ")
    for line in text.splitlines():
        line = re.sub(r"(?<!\\)#.*", "", line)
        include = _INCLUDE.fullmatch(line)
        if include is None:
            yield line
            continue
        left[0] -= 1
        path = folder / include[1]
        inner, problem = (
            read_bytes(places.target(places.below(str(path)))) if left[0] >= 0 else (None, "too many files")
        )
        if inner is None:
            problems[name] = f"{path}: {problem}"
        else:
            yield from _lines(inner, folder, places, problems, name, left)


def _pairs(line: str) -> dict[str, str]:
    return {found[1].lower(): found[2] or found[3] or "" for found in _PAIR.finditer(line)}


def _values(lines: list[str]) -> dict[str, str]:
    """Return the settings; the last one of a key holds. Definitions of nodes and partitions are none."""
    found: dict[str, str] = {}
    for line in lines:
        pairs = _pairs(line)
        if not pairs.keys() & {"nodename", "partitionname", "downnodes", "frontendname", "nodeset"}:
            found |= pairs
    return found


def _node(lines: list[str], node: str) -> Node:
    defaults: dict[str, str] = {}
    for line in lines:
        pairs = _pairs(line)
        name = pairs.get("nodename")
        if name is None:
            continue
        if name.upper() == "DEFAULT":
            defaults |= pairs
        elif names_host(name, node):
            return _definition(defaults | pairs)
    return Node()


def _definition(pairs: Mapping[str, str]) -> Node:
    cpus, memory = _whole(pairs.get("cpus") or pairs.get("procs")), _whole(pairs.get("realmemory"))
    if pairs.keys() & _SHAPE:
        threads = _whole(pairs.get("threadspercore")) or 1
        return Node(threads=min(threads, MAX_THREADS), memory_mib=memory)
    return Node(cpus=cpus, memory_mib=memory)


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 15 else None


class UnknownLimitError(Exception):
    """The limit of memory is not known. Its text says why."""


def memory_limit(config: SlurmConfig, allocated_mib: int, total_mib: int | None) -> int | None:
    """Return the limit that Slurm writes to a job's cgroup, in bytes; ``None``: it writes none.

    :param allocated_mib: what the job was given on this node; 0: memory is not given to jobs.
    :param total_mib: what ``MaxRAMPercent`` is a part of; ``None``: not known.
    :raises UnknownLimitError: it depends on what is not known.
    """
    ram, swap = config.yes("ConstrainRAMSpace"), config.yes("ConstrainSwapSpace")
    if not ram and not swap:
        return None
    allowed = _percent(config, "AllowedRAMSpace", 100.0) if ram else 100.0
    more = 0.0 if ram else _percent(config, "AllowedSwapSpace", 0.0)
    most = _percent(config, "MaxRAMPercent", 100.0)
    beyond = 0.0 if ram else _percent(config, "MaxSwapPercent", 100.0)
    least_text = config.cgroup.get("minramspace", "30")
    least = _whole(least_text)
    if least is None:
        raise UnknownLimitError(f"MinRAMSpace={least_text[:20]} is no number")
    # A job is never given more than the node has, so a smaller part of it than the most is always below.
    bound = total_mib is not None
    if not bound and (not allocated_mib or allowed > most or allowed + more > most + beyond):
        raise UnknownLimitError("the node's RealMemory, of which MaxRAMPercent is a part, is not known")
    total = total_mib if total_mib is not None else 0
    limit = _part(allocated_mib, allowed) if allocated_mib else total * MIB
    limit = _between(limit, least * MIB, _part(total, most) if bound else None)
    if ram:
        return limit
    limit += _part(allocated_mib or total, more)
    return _between(limit, least * MIB, _part(total, most) + _part(total, beyond) if bound else None)


def _between(limit: int, least: int, most: int | None) -> int:
    if limit < least:
        return least
    return limit if most is None else min(limit, most)


def _part(mebibytes: int, percent: float) -> int:
    """Return a part in bytes, rounded down as Slurm's C does."""
    return int(mebibytes * MIB * (percent / 100.0))


def _percent(config: SlurmConfig, key: str, default: float) -> float:
    """Return a percentage as Slurm keeps it: of single precision."""
    text = config.cgroup.get(key.lower())
    if text is None:
        return default
    number = text.removesuffix("%")
    if not _NUMBER.fullmatch(number):
        raise UnknownLimitError(f"{key}={text[:20]} is no percentage")
    return float(struct.unpack("f", struct.pack("f", float(number)))[0])
