"""What ``/proc/<tid>/status`` says of a thread's masks. Pure.

Source: proc(5) (Name, Tgid, Cpus_allowed_list, Mems_allowed_list).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.text import names

_MEANT = {"\\n": "\n", "\\\\": "\\"}
_WANTED = (b"\nName:", b"\nTgid:", b"\nCpus_allowed_list:", b"\nMems_allowed_list:")
_ESCAPED = re.compile(r"\\[n\\]")
"""What the kernel writes for a line end and a backslash in ``Name`` (fs/proc/array.c, ``proc_task_name``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStatus:
    """What one ``status`` file says."""

    pid: int
    comm: str
    cpus_allowed: CpuSet
    mems_allowed: CpuSet


class Masks(NamedTuple):
    """What a thread may use."""

    cpus: CpuSet
    mems: CpuSet

    def within(self, cpus: CpuSet, mems: CpuSet | None) -> bool:
        """Return whether a thread has a claim's CPUs and memory nodes: both come with its cpuset."""
        return self.cpus <= cpus and (mems is None or self.mems <= mems)


Read = tuple[bytes, bytes, Masks]
"""What the wanted lines of one ``status`` file say: name, process, masks."""


def parse_status(text: str) -> ThreadStatus | None:
    """Read the wanted lines; ``None`` if one is missing (a thread that is just dying) or not a list."""
    found = parsed(text.encode("utf-8", "surrogateescape"))
    if found is None:
        return None
    name, tgid, masks = found
    return ThreadStatus(pid=int(tgid), comm=comm_of(name), cpus_allowed=masks.cpus, mems_allowed=masks.mems)


def parsed(data: bytes) -> Read | None:
    """Read the same lines of a file's bytes.

    A node has ten thousand threads and a file some sixty lines: the wanted ones are looked for, the others not cut, and
    what they mean is known of the threads before.
    """
    # The kernel escapes "\n" and "\\" in the name, so no name begins a line; of two lines of a name the first counts.
    data = b"\n" + data
    name, tgid, cpus, mems = [_line(data, key) for key in _WANTED]
    if name is None or tgid is None or cpus is None or not tgid.isdigit():
        return None
    masks = _masks(cpus, mems or b"")
    return None if masks is None else (name, tgid, masks)


def _line(data: bytes, key: bytes) -> bytes | None:
    begin = data.find(key)
    if begin < 0:
        return None
    begin += len(key)
    end = data.find(b"\n", begin)
    return data[begin : end if end >= 0 else None].removeprefix(b"\t")


@lru_cache(maxsize=4096)
def _masks(cpus: bytes, mems: bytes) -> Masks | None:
    """Return what two lists mean; ``None``: one is no list. Thousands of threads have few different ones."""
    try:
        return Masks(CpuSet.parse(cpus.decode("latin-1")), CpuSet.parse(mems.decode("latin-1")))
    except (ValueError, InputError):
        return None


@lru_cache(maxsize=4096)
def comm_of(name: bytes) -> str:
    """Return a name as it is spelt everywhere."""
    meant = _ESCAPED.sub(lambda match: _MEANT[match[0]], name.decode("utf-8", "surrogateescape"))
    return names.from_text(meant)
