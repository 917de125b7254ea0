"""What a kubelet leaves when it dies between the two saves of one change: a whole file with half of a state.

Taking CPUs for a container saves its entry and then the smaller shared pool; giving them back saves the state without
the entry and then the larger pool. Each file is replaced at once; only between the two is it wrong. Pure.
Source: ``docs/failures.md`` F21, F22, ``docs/facts.md`` K-kubelet-5.
"""

from __future__ import annotations

from enum import StrEnum

from toolkit.allocation.checkpoint.cpu import read_cpu_checkpoint, write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet


class Tear(StrEnum):
    """On which side of the change it died."""

    DOUBLY_OWNED = "doubly-owned"
    """The entry is there, the pool still has its CPUs: they are in both."""
    LEAKED = "leaked"
    """The entry is gone, the pool has not got its CPUs back: they are in neither."""


def torn(text: str, tear: Tear, where: str) -> str:
    """Return the content that the file has after the first of the two saves, with a right checksum.

    :raises InputError: no readable checkpoint of version 2 to 4, or no container owns CPUs.
    """
    found = read_cpu_checkpoint(text, where)
    if found.version == 1 or not found.checksum_ok:
        raise InputError(where, f"version {found.version}, checksum {'right' if found.checksum_ok else 'wrong'}", "V2")
    entries = {
        uid: {name: CpuSet.parse(cpus, where) for name, cpus in containers.items()}
        for uid, containers in found.entries.items()
    }
    owned = [(uid, name) for uid, containers in sorted(entries.items()) for name in sorted(containers)]
    if not owned:
        raise InputError(where, "no container owns CPUs", "at least one entry: there is nothing to tear")
    uid, name = owned[-1]
    state = CpuState(
        policy_name=found.policy_name,
        default=CpuSet.parse(found.default, where),
        entries=entries,
        pods=dict(found.pods),
    )
    if tear is Tear.DOUBLY_OWNED:
        state = state._replace(default=state.default | entries[uid][name])
    else:
        state = state.without_entry(uid, name)
    return write_cpu_checkpoint(state, pod_level=found.version >= 3, wrapped=found.version == 4)
