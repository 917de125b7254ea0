"""The kubelet's state files as neutral values for judging: whatever is wrong with a file is reported, never raised.

The reading of the formats is :mod:`toolkit.allocation.checkpoint.cpu` and ``checkpoint_memory``; rule ``checkpoint``
sees only the values. Source: ``docs/facts.md`` K-kubelet-4, K-kubelet-5.
"""

from __future__ import annotations

from toolkit.allocation.checkpoint.cpu import FILE as CPU_FILE
from toolkit.allocation.checkpoint.cpu import read_cpu_checkpoint
from toolkit.allocation.checkpoint.format import UnknownVersionError
from toolkit.allocation.checkpoint.memory import FILE as MEMORY_FILE
from toolkit.allocation.checkpoint.memory import read_memory_checkpoint
from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.model.state_files import CpuEntry, CpuStateFile, MemoryEntry, MemoryNode, MemoryRow, MemoryStateFile

MAX_TEXT = 16 * 1024 * 1024
"""Longer texts are no state files: a node with a thousand pods writes some hundred kilobytes."""


def cpu_state_file(text: str) -> CpuStateFile:
    """Read the text of ``cpu_manager_state``."""
    if len(text) > MAX_TEXT:
        return CpuStateFile(text="", problem=f"{len(text)} characters are no state file")
    try:
        found = read_cpu_checkpoint(text, CPU_FILE)
    except InputError as error:
        return CpuStateFile(text=text, problem=str(error), unknown=isinstance(error, UnknownVersionError))
    return CpuStateFile(
        text=text,
        version=found.version,
        policy=found.policy_name,
        default=found.default,
        checksum_ok=found.checksum_ok,
        entries=tuple(
            CpuEntry(pod_uid=uid, container=name, cpus=cpus)
            for uid, containers in sorted(found.entries.items())
            for name, cpus in sorted(containers.items())
        ),
        pods=tuple(CpuEntry(pod_uid=uid, container="", cpus=str(cpus)) for uid, cpus in sorted(found.pods.items())),
    )


def memory_state_file(text: str) -> MemoryStateFile:
    """Read the text of ``memory_manager_state``."""
    if len(text) > MAX_TEXT:
        return MemoryStateFile(text="", problem=f"{len(text)} characters are no state file")
    try:
        found = read_memory_checkpoint(text, MEMORY_FILE)
    except InputError as error:
        return MemoryStateFile(text=text, problem=str(error), unknown=isinstance(error, UnknownVersionError))
    state = found.state
    return MemoryStateFile(
        text=text,
        version=found.version,
        policy=found.policy_name,
        checksum_ok=found.checksum_ok,
        rows=tuple(
            MemoryRow(
                node=node,
                kind=kind,
                total_bytes=table.total,
                system_reserved_bytes=table.system_reserved,
                allocatable_bytes=table.allocatable,
                reserved_bytes=table.reserved,
                free_bytes=table.free,
            )
            for node, known in sorted(state.nodes.items())
            for kind, table in sorted(known.memory.items())
        ),
        entries=tuple(
            MemoryEntry(
                pod_uid=uid, container=name, nodes=CpuSet.of(block.numa), kind=block.type, size_bytes=block.size
            )
            for uid, containers in sorted(state.entries.items())
            for name, blocks in sorted(containers.items())
            for block in blocks
        ),
        pods=tuple(
            MemoryEntry(pod_uid=uid, container="", nodes=CpuSet.of(block.numa), kind=block.type, size_bytes=block.size)
            for uid, blocks in sorted(state.pod_entries.items())
            for block in blocks
        ),
        nodes=tuple(
            MemoryNode(node=node, assignments=known.assignments, group=CpuSet.of(known.cells))
            for node, known in sorted(state.nodes.items())
        ),
    )
