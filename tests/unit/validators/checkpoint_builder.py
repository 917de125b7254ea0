"""What the tests of rule ``checkpoint`` build: state files, what is known of the node, the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.unit.validators.evidence_builder import claim_set, cpus, evidence
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.checkpoint.memory import write_memory_checkpoint
from toolkit.allocation.checkpoint.state_files import cpu_state_file, memory_state_file
from toolkit.allocation.cpu.state import CpuState
from toolkit.allocation.memory.state import Block, MemoryState, MemoryTable, NodeState
from toolkit.model.state_files import CpuStateFile, KnownContainer, MemoryStateFile, StateReading
from toolkit.model.verdict import Verdict
from validators.rules.checkpoint import RULE

Entries = Mapping[str, Mapping[str, str]]
DB: Entries = {"u1": {"db": "2-3"}}


def state(default: str, entries: Entries = DB, pods: Mapping[str, str] | None = None, policy: str = "static") -> str:
    value = CpuState(
        policy_name=policy,
        default=cpus(default),
        entries={uid: {name: cpus(text) for name, text in names.items()} for uid, names in entries.items()},
        pods={uid: cpus(text) for uid, text in (pods or {}).items()},
    )
    return write_cpu_checkpoint(value, pod_level=pods is not None)


def known(*names: str, running: bool = True) -> tuple[KnownContainer, ...]:
    return tuple(
        KnownContainer(pod_uid=name.split("/")[0], container=name.split("/")[1], running=running) for name in names
    )


def reading(cpu: str | CpuStateFile | None, **changes: object) -> StateReading:
    file = cpu_state_file(cpu) if isinstance(cpu, str) else cpu
    value = StateReading(
        at_ns=0,
        cpus_online=cpus("0-3"),
        cpu=file,
        cpu_policy=None if file is None else "static",
        containers=known("u1/db", "u1/b", "u2/db"),
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def judged(*readings: StateReading, **node: object) -> Verdict:
    claims = claim_set(**{"reserved_cpus": cpus("0"), **node})
    return RULE(claims, evidence(state_files=readings))[0]


GOOD = state("0-1")


def table(reserved: int) -> MemoryTable:
    return MemoryTable(total=1000, system_reserved=100, allocatable=900, reserved=reserved, free=900 - reserved)


def memory(reserved: int = 300, node: int = 0) -> MemoryState:
    return MemoryState(
        nodes={0: NodeState(1, {"memory": table(reserved)}, (0,)), 1: NodeState(0, {"memory": table(0)}, (1,))},
        entries={"u1": {"db": (Block((node,), "memory", 300),)}},
    )


def memory_verdict(value: MemoryState | str | MemoryStateFile, **changes: object) -> Verdict:
    if isinstance(value, MemoryState):
        value = write_memory_checkpoint("Static", value, pod_level=False)
    file = memory_state_file(value) if isinstance(value, str) else value
    return judged(reading(None, memory=file, memory_policy="Static", **changes))


BOTH = state("1-3")
"""CPUs 2-3 are assigned, and in the shared pool, too."""


def written(value: MemoryState, policy: str = "Static") -> str:
    return write_memory_checkpoint(policy, value, pod_level=False)
