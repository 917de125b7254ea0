"""The kernel's records of who is a member of a claim: written when a claim is added, tidied up when tasks die.

The programs keep them up to date (``probes/switches/membership.h``); only what was there before the claim comes from
here.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

from probes.bpfsys import BPF_NOEXIST, Map
from probes.switches.records import Member
from toolkit.host import procfs


def record_members(threads: Map, tids: Iterable[int], ident: int, since_ns: int) -> bool:
    """Write down which threads are in a cgroup when its claim is added; what a program wrote after ``since_ns`` stays.

    Returns ``False`` where the map is full.
    """
    member = Member(ident=ident, incomplete=0, at_ns=since_ns, joined_ns=since_ns)
    data = Member.LAYOUT.pack(member.ident, member.incomplete, member.at_ns, member.joined_ns)
    for tid in tids:
        key = tid.to_bytes(4, "little")
        try:
            if not threads.update(key, data, BPF_NOEXIST):
                found = threads.lookup(key)
                if found is None or Member.decode(found).at_ns < since_ns:
                    threads.update(key, data)
        except OSError as error:
            if error.errno == errno.E2BIG:
                return False
            raise
    return True


def drop_dead(tables: tuple[Map, ...], limit: int, root: Path) -> None:
    """Forget tasks that are gone, once a table is half full: leaders that died before their threads leave a record."""
    for table in tables:
        if table.count() < limit // 2:
            continue
        for key in tuple(table.keys()):
            if procfs.start_time(int.from_bytes(key, "little"), root) is None:
                table.delete(key)
