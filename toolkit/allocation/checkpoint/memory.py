"""``memory_manager_state``: written byte for byte, read and refused as a kubelet does.

V2 adds ``podEntries`` to V1; the gate PodLevelResourceManagers decides which one a kubelet before v1.37 writes. Later
ones write V3: V1, and its content with ``podEntries`` once more as a text, which is what counts. The kubelet writes the
blocks of one container in random order; here they are sorted by type, which is one of its possible outcomes.
Source: ``docs/facts.md`` K-kubelet-5; ``docs/simulate-format.md`` "final"; kubernetes pull request 139626.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.allocation.checkpoint.format import (
    ROOT,
    CheckpointError,
    below,
    field_error,
    first_sound,
    fnv32a,
    go_json,
    go_map,
    is_wrapped,
    kind_of,
    load_object,
    map_field,
    number_field,
    refuse_unknown,
    text_checksum,
    text_field,
    wrapped_json,
    wrapped_or_older,
)
from toolkit.allocation.memory.state import Block, MemoryState, MemoryTable, NodeState
from toolkit.errors import InputError
from toolkit.kubernetes.go_text import GoError, atoi, quote

FILE = "memory_manager_state"
MAX_NODE = 1 << 16
_STRUCT = "MemoryManagerCheckpoint"
_CONTENT = frozenset({"policyName", "machineState", "entries", "podEntries"})
_FILE_FIELDS = _CONTENT | {"checksum", "data", "dataChecksum"}
_TABLE_FIELDS = (
    ("total", "TotalMemSize", "total"),
    ("systemReserved", "SystemReserved", "system_reserved"),
    ("allocatable", "Allocatable", "allocatable"),
    ("reserved", "Reserved", "reserved"),
    ("free", "Free", "free"),
)
"""JSON name, Go name, our name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCheckpoint:
    """A checkpoint as it stands in the file. :param version: 1, 2 or 3."""

    version: int
    policy_name: str
    state: MemoryState
    checksum: int
    checksum_ok: bool


def write_memory_checkpoint(policy_name: str, state: MemoryState, *, pod_level: bool, wrapped: bool = False) -> str:
    """Return the file's text. :param pod_level: V2 instead of V1. :param wrapped: V3, with or without pods."""
    document: dict[str, object] = {
        "policyName": policy_name,
        "machineState": {str(n): _node_json(state.nodes[n]) for n in sorted(state.nodes, key=str)},
    }
    if state.entries:
        document["entries"] = {
            uid: {name: [_block_json(b) for b in blocks] for name, blocks in sorted(containers.items())}
            for uid, containers in sorted(state.entries.items())
        }
    content = dict(document)
    if pod_level and state.pod_entries:
        content["podEntries"] = {
            uid: {"memoryBlocks": [_block_json(b) for b in blocks]} for uid, blocks in sorted(state.pod_entries.items())
        }
    if wrapped:
        return wrapped_json(document, fnv32a(memory_hashed_text(policy_name, state, pod_level=False)), content)
    return go_json(content | {"checksum": fnv32a(memory_hashed_text(policy_name, state, pod_level=pod_level))})


def memory_hashed_text(policy_name: str, state: MemoryState, *, pod_level: bool, struct: str = _STRUCT) -> str:
    """Return the text that is hashed."""
    nodes = " ".join(f"{n}:<*>{_node_dump(state.nodes[n])}" for n in sorted(state.nodes))
    entries = go_map(state.entries, lambda containers: go_map(containers, _blocks_dump))
    parts = [f"PolicyName:(string){policy_name}", f"MachineState:(state.NUMANodeMap)map[{nodes}]"]
    parts.append(f"Entries:(state.ContainerMemoryAssignments){entries}")
    if pod_level:
        pods = go_map(state.pod_entries, lambda blocks: f"{{MemoryBlocks:([]state.Block){_blocks_dump(blocks)}}}")
        parts.append(f"PodEntries:(state.PodMemoryAssignments){pods}")
    return f"(*state.{struct}){{{' '.join(parts)} Checksum:(checksum.Checksum)0}}"


def _node_json(node: NodeState) -> dict[str, object]:
    memory = {n: {key: getattr(node.memory[n], ours) for key, _, ours in _TABLE_FIELDS} for n in sorted(node.memory)}
    return {"numberOfAssignments": node.assignments, "memoryMap": memory, "cells": list(node.cells)}


def _node_dump(node: NodeState) -> str:
    tables = go_map(node.memory, _table_dump)
    memory = f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable){tables}"
    cells = f"Cells:([]int)[{' '.join(map(str, node.cells))}]"
    return f"{{NumberOfAssignments:(int){node.assignments} {memory} {cells}}}"


def _table_dump(table: MemoryTable) -> str:
    fields = " ".join(f"{go}:(uint64){getattr(table, ours)}" for _, go, ours in _TABLE_FIELDS)
    return f"<*>{{{fields}}}"


def _block_json(block: Block) -> dict[str, object]:
    return {"numaAffinity": list(block.numa), "type": block.type, "size": block.size}


def _blocks_dump(blocks: Sequence[Block]) -> str:
    return f"[{' '.join(map(_block_dump, blocks))}]"


def _block_dump(block: Block) -> str:
    numa = " ".join(map(str, block.numa))
    return f"{{NUMAAffinity:([]int)[{numa}] Type:(v1.ResourceName){block.type} Size:(uint64){block.size}}}"


def parse_memory_checkpoint(text: str, version: int) -> MemoryCheckpoint:
    """Read the text as one version.

    :raises CheckpointError: the text does not have this version's form; a wrong checksum is no error here.
    """
    if version == 3:
        return _parse_wrapped(text)
    data = load_object(text, _STRUCT)
    policy, state = _content(data, _STRUCT, pod_level=version == 2)
    checksum = number_field(data, "checksum", _STRUCT, "checksum.Checksum")
    names = (_STRUCT,) if version == 2 else (_STRUCT, f"{_STRUCT}V1")
    computed = {fnv32a(memory_hashed_text(policy, state, pod_level=version == 2, struct=name)) for name in names}
    ok = checksum in computed or (checksum == 0 and version == 1)
    return MemoryCheckpoint(version=version, policy_name=policy, state=state, checksum=checksum, checksum_ok=ok)


def _parse_wrapped(text: str) -> MemoryCheckpoint:
    """Read V3: its fields must have the right types, and what counts of them is the text."""
    what = "failed to deserialize memory manager checkpoint"
    try:
        outer = load_object(text, _STRUCT)
        _content(outer, _STRUCT, pod_level=False)
        number_field(outer, "checksum", _STRUCT, "checksum.Checksum")
        written = text_field(outer, "data", _STRUCT)
        checksum = number_field(outer, "dataChecksum", _STRUCT, "checksum.Checksum")
        what = f"{what} data"
        policy, state = _content(load_object(written, f"{_STRUCT}Data"), f"{_STRUCT}Data", pod_level=True)
    except CheckpointError as error:
        raise CheckpointError(f"{what}: {error}") from None
    ok = checksum == text_checksum(written)
    return MemoryCheckpoint(version=3, policy_name=policy, state=state, checksum=checksum, checksum_ok=ok)


def _content(data: dict[str, Any], struct: str, *, pod_level: bool) -> tuple[str, MemoryState]:
    """Read policy and state. :param pod_level: whether this version has ``podEntries``."""
    policy = text_field(data, "policyName", struct)
    state = MemoryState()
    for key, node in map_field(data, "machineState", struct, "state.NUMANodeMap").items():
        state.nodes[_node_id(key)] = _parse_node(node, key)
    for uid, containers in map_field(data, "entries", struct, "state.ContainerMemoryAssignments").items():
        if not isinstance(containers, dict):
            raise field_error(containers, below(struct, "entries"), uid, "map[string][]state.Block")
        place = below(struct, "entries", uid)
        state.entries[uid] = {name: _parse_blocks(blocks, below(place, name)) for name, blocks in containers.items()}
    for uid, entry in map_field(data, "podEntries", struct, "state.PodMemoryAssignments").items() if pod_level else ():
        if not isinstance(entry, dict):
            raise field_error(entry, below(struct, "podEntries"), uid, "state.PodEntry")
        place = below(struct, "podEntries", uid, "memoryBlocks")
        state.pod_entries[uid] = _parse_blocks(entry.get("memoryBlocks"), place)
    return policy, state


def _node_id(text: str) -> int:
    try:
        node = atoi(text)
    except GoError:
        raise CheckpointError(
            f"json: cannot unmarshal number {text[:40]} into Go struct field {_STRUCT}.machineState of type int"
        ) from None
    if not 0 <= node < MAX_NODE:
        raise CheckpointError(f"NUMA node {node} out of range")
    return node


def _parse_node(value: Any, key: str) -> NodeState:
    if not isinstance(value, dict):
        raise field_error(value, below(_STRUCT, "machineState"), key, "state.NUMANodeState")
    place = below(_STRUCT, "machineState", key)
    memory = {}
    for name, table in map_field(value, "memoryMap", place, "map[v1.ResourceName]*state.MemoryTable").items():
        if not isinstance(table, dict):
            raise field_error(table, below(place, "memoryMap"), name, "state.MemoryTable")
        inside = below(place, "memoryMap", name)
        memory[name] = MemoryTable(**{ours: number_field(table, json, inside) for json, _, ours in _TABLE_FIELDS})
    return NodeState(number_field(value, "numberOfAssignments", place, "int"), memory, _ids(value, "cells", place))


def _parse_blocks(value: Any, place: str) -> tuple[Block, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        found = kind_of(value)
        raise CheckpointError(f"json: cannot unmarshal {found} into Go struct field {place} of type []state.Block")
    blocks = []
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise field_error(item, place, index, "state.Block")
        inside = below(place, index)
        size = number_field(item, "size", inside)
        blocks.append(Block(_ids(item, "numaAffinity", inside), text_field(item, "type", inside), size))
    return tuple(blocks)


def _ids(data: dict[str, Any], field: str, place: str) -> tuple[int, ...]:
    value = data.get(field)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise field_error(value, place, field, "[]int")
    for index, item in enumerate(value):
        if type(item) is not int:
            raise field_error(item, below(place, field), index, "int")
        if not 0 <= item < MAX_NODE:
            raise CheckpointError(f"NUMA node {str(item)[:40]} out of range")
    return tuple(value)


def restore_memory_state(
    text: str | None, policy_name: str, *, pod_level: bool, wrapped: bool = False, root: str = ROOT
) -> MemoryState:
    """Restore what a starting kubelet finds; empty if there is no file. :param wrapped: by one that writes V3.

    :raises CheckpointError: with the kubelet's whole message.
    """
    if text is None:
        return MemoryState()
    try:
        if wrapped:
            found = wrapped_or_older(parse_memory_checkpoint, text, f"{_STRUCT}V1", (3, 2, 1))
        else:
            found = first_sound(parse_memory_checkpoint, text, (2, 1) if pod_level else (1,))
        if found.policy_name != policy_name:
            names = f"configured policy {quote(policy_name)} differs from state checkpoint policy"
            raise CheckpointError(f"[memorymanager] {names} {quote(found.policy_name)}")
    except CheckpointError as error:
        remedy = f"please drain this node and delete the memory manager checkpoint file {quote(f'{root}/{FILE}')}"
        message = f"could not restore state from checkpoint: {error}, {remedy} before restarting Kubelet"
        raise CheckpointError(message) from None
    if wrapped and not pod_level:
        found.state.pod_entries.clear()
    return found.state


def read_memory_checkpoint(text: str, where: str) -> MemoryCheckpoint:
    """Read a checkpoint of any version from a node, for judging: a wrong checksum is reported, not refused.

    :raises InputError: it is no checkpoint, or of a version that is not known.
    """
    try:
        outer = load_object(text, _STRUCT)
        refuse_unknown(outer, _FILE_FIELDS, where, "version 1 to 3")
        if is_wrapped(outer):
            newest = parse_memory_checkpoint(text, 3)
            if newest.checksum_ok:
                data = load_object(outer["data"], _STRUCT)
                refuse_unknown(data, _CONTENT, f"{where}, data", "the fields of version 3")
            return newest
        newest = parse_memory_checkpoint(text, 2)
        if newest.checksum_ok:
            return newest
        oldest = parse_memory_checkpoint(text, 1)
    except CheckpointError as error:
        raise InputError(where, str(error), "a memory_manager_state checkpoint") from None
    return oldest if oldest.checksum_ok else newest
