"""CPU time and throttling of cgroups, as the kernel counts them: read once, or again and again.

A directory's inode is looked at first: where there is none nothing is opened, and files that stay open
(:mod:`toolkit.host.kept_files`) are read of that directory alone. Most cgroups of a node sleep: what the same bytes say
is known.

Source: Documentation/admin-guide/cgroup-v2.rst ("cpu.stat"), cgroup-v1/cpuacct.rst;
Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolkit.host.cgroup_mounts import Hierarchy, read_control
from toolkit.host.cgroup_paths import relative
from toolkit.host.kept_files import NONE_KEPT, KeptFiles

_STAT = ("cpu.stat",)
_USAGE = ("cpuacct.usage", "cpuacct.usage_sys")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuStat:
    """CPU time and throttling of a cgroup and its descendants; ``None`` where the kernel does not report it.

    :param at_ns: CLOCK_MONOTONIC at the middle of the read.
    :param system_ns: what of ``usage_ns`` was in the kernel, as far as its timer ticks found it there.
    """

    at_ns: int
    usage_ns: int | None
    nr_periods: int | None
    nr_throttled: int | None
    throttled_ns: int | None
    nr_bursts: int | None
    burst_ns: int | None
    system_ns: int | None = None


class CpuCounters:
    """The counters of one host's cgroups (v2 ``cpu.stat``; v1 ``cpu.stat`` and ``cpuacct.usage*``).

    :param kept: reads them.
    """

    def __init__(self, hierarchy: Hierarchy, kept: KeptFiles = NONE_KEPT) -> None:
        self._kept = kept
        # Every v2 cgroup but the root has the usage part of cpu.stat, with or without the controller.
        unified = hierarchy.unified
        counts = unified if hierarchy.is_v2("cpu") else hierarchy.controller_dir("cpu")
        usage = None if hierarchy.is_v2("cpuacct") else hierarchy.controller_dir("cpuacct")
        self._unified, self._counts, self._usage = (
            None if mount is None else str(mount) for mount in (unified, counts, usage)
        )
        self._said: dict[tuple[str | None, str], tuple[bytes | None, Mapping[str, int]]] = {}
        """By hierarchy and path: what ``cpu.stat`` was when it was read last, and what that means."""

    def read(self, cgroup: str) -> tuple[CpuStat, tuple[int, int]]:
        """Return a cgroup's counters, and the inodes of the directories that usage and throttling were read from.

        0: there is none. A cgroup that was made again under its name has another inode, and counts from nothing. Where
        usage is read from the v2 hierarchy although a v1 hierarchy counts it, the number is negative: there the cgroup
        does not exist, or no more.
        """
        path = relative(cgroup)
        began = time.monotonic_ns()
        used_in, (usage_text, system_text) = self._read(self._usage, path, _USAGE)
        counted_in, (text,) = self._read(self._counts, path, _STAT)
        counters = self._meaning(self._counts, path, text)
        usage, system = _number(usage_text), _number(system_text)
        if usage is None:
            base, usage_from = counters, counted_in if self._counts == self._unified else 0
            if "usage_usec" not in base and self._counts != self._unified:
                usage_from, (text,) = self._read(self._unified, path, _STAT)
                base = self._meaning(self._unified, path, text)
            usage, system = _scaled(base.get("usage_usec")), _scaled(base.get("system_usec"))
            used_in = used_in or (usage_from if self._usage is None else -usage_from)
        stat = CpuStat(
            at_ns=(began + time.monotonic_ns()) // 2,
            usage_ns=usage,
            nr_periods=counters.get("nr_periods"),
            nr_throttled=counters.get("nr_throttled"),
            throttled_ns=counters.get("throttled_time", _scaled(counters.get("throttled_usec"))),
            nr_bursts=counters.get("nr_bursts"),
            burst_ns=counters.get("burst_time", _scaled(counters.get("burst_usec"))),
            system_ns=system,
        )
        return stat, (used_in, counted_in)

    def keep(self, cgroups: Iterable[str]) -> None:
        """Close the files of all others, and forget what they said."""
        paths = {relative(cgroup) for cgroup in cgroups}
        mounts = [mount for mount in (self._usage, self._counts, self._unified) if mount is not None]
        self._kept.keep(f"{mount}/{path}" for path in paths for mount in mounts)
        self._said = {key: said for key, said in self._said.items() if key[1] in paths}

    def _meaning(self, mount: str | None, path: str, text: bytes | None) -> Mapping[str, int]:
        known = self._said.get((mount, path))
        if known is None or known[0] != text:
            known = self._said[mount, path] = text, _counters(text)
        return known[1]

    def _read(self, mount: str | None, path: str, names: tuple[str, ...]) -> tuple[int, list[bytes | None]]:
        """Read files of a cgroup's directory; the inode is 0 where there is none.

        :raises OSError: the kernel refuses, which does not mean that the cgroup is gone.
        """
        nothing: list[bytes | None] = [None] * len(names)
        if mount is None:
            return 0, nothing
        folder = f"{mount}/{path}"
        try:
            inode = os.stat(folder).st_ino  # noqa: PTH116 a thousand of them
        except OSError:
            return 0, nothing
        texts = self._kept.read(folder, names, inode)
        if None in texts:
            pairs = zip(names, texts, strict=True)
            texts = [_again(f"{folder}/{name}") if text is None else text for name, text in pairs]
        return inode, texts


def read_cpu_stat(hierarchy: Hierarchy, cgroup: str) -> CpuStat:
    """Read a cgroup's counters once."""
    return CpuCounters(hierarchy).read(cgroup)[0]


def _again(path: str) -> bytes | None:
    """Read a file that could not be read, or is none of this kernel's: where the kernel refuses, it says so."""
    text = read_control(path)
    return None if text is None else os.fsencode(text)


def _counters(text: bytes | None) -> Mapping[str, int]:
    words = (line.decode("utf-8", "surrogateescape").split() for line in (text or b"").split(b"\n"))
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}


def _number(text: bytes | None) -> int | None:
    text = (text or b"").strip()
    return int(text) if text.isdigit() and len(text) <= 20 else None


def _scaled(value_us: int | None) -> int | None:
    return None if value_us is None else value_us * 1000
