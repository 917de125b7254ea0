"""Where a process's resident pages are, by kind of mapping and NUMA node: ``/proc/<pid>/numa_maps``.

One line a mapping: address, policy, then words: ``heap``, ``stack``, ``huge``, ``file=NAME``, counters such as
``anon=`` and ``N0=``, and the page size that the counters are in. A policy may hold a blank (``prefer (many):0``),
names never do (the kernel escapes blanks, tabs, line ends and ``=``): words that are not known are passed over.

Source: proc(5), ``/proc/pid/numa_maps``; Documentation/admin-guide/mm/numa_memory_policy.rst; docs/failures.md F66.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from toolkit import presence
from toolkit.host import procfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.model.cpuset import CpuSet
from toolkit.model.placement import PageKind, PageReading, PageUse
from toolkit.model.runtimes import INIT_NAMES, PINNED_NS

_NODE = re.compile(r"N(\d{1,5})=(\d{1,15})", re.ASCII)
_COUNT = re.compile(r"(anon|kernelpagesize_kB)=(\d{1,15})", re.ASCII)
DEFAULT_PAGE_KB = 4
MAX_PROCESSES = 512
"""Processes of one claim that are read: the kernel walks the page tables of each."""

Usage = dict[tuple[PageKind, int], int]
"""Bytes by kind and node."""


def parse_numa_maps(text: str) -> Usage:
    """Sum the mappings of one process. Lines that make no sense are passed over."""
    usage: Usage = {}
    # A file's name may hold other white space than the kernel escapes: it must begin neither a line nor a word.
    for line in text.split("\n"):
        words = line.split(" ")
        if len(words) < 2:
            continue
        nodes = [(int(match[1]), int(match[2])) for word in words[2:] if (match := _NODE.fullmatch(word))]
        counts = {match[1]: int(match[2]) for word in words[2:] if (match := _COUNT.fullmatch(word))}
        kind = _kind(frozenset(words[2:]), counts.get("anon", 0) == sum(pages for _, pages in nodes))
        page_bytes = counts.get("kernelpagesize_kB", DEFAULT_PAGE_KB) * 1024
        for node, pages in nodes:
            usage[kind, node] = usage.get((kind, node), 0) + pages * page_bytes
    return usage


def _kind(words: frozenset[str], private: bool) -> PageKind:
    """``private``: all resident pages are anonymous (of a private file mapping: written, so the process's own)."""
    if "huge" in words:
        return PageKind.HUGE
    if "heap" in words:
        return PageKind.HEAP
    if "stack" in words:
        return PageKind.STACK
    if any(word.startswith("file=") for word in words) and not private:
        return PageKind.FILE
    return PageKind.ANON


def read_numa_maps(pid: int, root: Path = Path("/")) -> Usage | None:
    """Read one process; ``None``: it is gone, may not be read, or the kernel has no NUMA support."""
    try:
        text = read_control(root / f"proc/{pid}/numa_maps")
    except OSError:
        return None
    return None if text is None else parse_numa_maps(text)


def _read_member(pid: int, root: Path, mems: CpuSet | None) -> tuple[Usage | None, bool]:
    """Read one process of a claim, and whether it is a runtime's that has pages of before it joined.

    A v1 cpuset leaves such pages where they are (``memory_migrate``), v2 moves them some time later; the memory goes
    when the process becomes the container's program, as each exec probe does. A name proves nothing: it counts for as
    long as a runtime was seen to have it, and for whatever began so lately; then the pages are judged.
    Source: kernel/cgroup/cpuset.c, ``cpuset_attach``; docs/facts.md, "Normal on a healthy node".
    """
    usage = read_numa_maps(pid, root)
    if usage is None or mems is None or not _outside(usage, mems) or not _began_lately(pid, root):
        return usage, False
    named = procfs.comm(pid, root) in INIT_NAMES
    # Read again: it may have become its program between the two.
    usage = read_numa_maps(pid, root)
    return usage, named and usage is not None and _outside(usage, mems)


def _outside(usage: Usage, mems: CpuSet) -> bool:
    return any(used > 0 and kind is not PageKind.FILE and node not in mems for (kind, node), used in usage.items())


def _began_lately(pid: int, root: Path) -> bool:
    start = procfs.start_time(pid, root)
    if start is None:
        return False
    began_ns = start * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - began_ns < PINNED_NS


@dataclass(slots=True)
class _Sum:
    total_bytes: int = 0
    pid: int = 0
    process_bytes: int = -1


def read_pages(claim: str, pids: Iterable[int], root: Path = Path("/"), mems: CpuSet | None = None) -> PageReading:
    """Sum the processes of one claim; those that ended meanwhile are in no count. :param mems: its promised nodes."""
    sums: dict[tuple[PageKind, int], _Sum] = {}
    processes = unread = joining = 0
    for pid in pids:
        usage, is_joining = _read_member(pid, root, mems) if processes < MAX_PROCESSES else (None, False)
        if is_joining:
            joining += 1
            continue
        if usage is None:
            unread += presence.exists(root / f"proc/{pid}")
            continue
        processes += 1
        for key, used in usage.items():
            own = sums.setdefault(key, _Sum())
            own.total_bytes += used
            if used > own.process_bytes:
                own.pid, own.process_bytes = pid, used
    return PageReading(
        claim=claim,
        processes=processes,
        unread=unread,
        joining=joining,
        pages=tuple(
            PageUse(
                claim=claim,
                kind=kind,
                node=node,
                total_bytes=own.total_bytes,
                pid=own.pid,
                comm=procfs.comm(own.pid, root),
                process_bytes=own.process_bytes,
            )
            for (kind, node), own in sorted(sums.items())
        ),
    )
