"""Hostile and damaged state files: refused in one line, never a crash."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolkit.allocation.checkpoint.cpu import (
    cpu_hashed_text,
    read_cpu_checkpoint,
    restore_cpu_state,
)
from toolkit.allocation.checkpoint.format import CheckpointError, fnv32a
from toolkit.allocation.checkpoint.memory import (
    read_memory_checkpoint,
    restore_memory_state,
)
from toolkit.errors import InputError

DATA = Path(__file__).resolve().parents[4] / "data" / "vectors" / "checkpoint-checksums.json"
EXAMPLES: list[dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))["examples"]

HOSTILE = [
    "",
    "null",
    "[]",
    "{",
    '"text"',
    "[" * 100_000,
    '{"policyName":3}',
    '{"entries":[]}',
    '{"entries":{"p":{"c":1}}}',
    '{"podEntries":{"p":{"cpuSet":"0-99999999999999999999"}}}',
    '{"defaultCpuSet":"0-4294967295","checksum":0}',
    '{"checksum":-1}',
    '{"checksum":1e400}',
    '{"machineState":{"x":{}}}',
    '{"machineState":{"99999999":{}}}',
    '{"machineState":{"0":{"memoryMap":{"memory":{"free":-1}},"cells":[-1]}}}',
    '{"entries":{"p":{"c":[{"numaAffinity":["0"],"size":1}]}}}',
    '{"checksum":' + "9" * 5000 + "}",
]


def complaints(text: str, *, gate: bool) -> list[str]:
    """What every reader says about a text, one message for each that refuses it."""
    found = []
    readers: list[Callable[[], object]] = [
        lambda: restore_cpu_state(text, "static", pod_level=gate),
        lambda: restore_memory_state(text, "Static", pod_level=gate),
        lambda: read_cpu_checkpoint(text, "state"),
        lambda: read_memory_checkpoint(text, "state"),
    ]
    for read in readers:
        try:
            read()
        except (CheckpointError, InputError) as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_files_are_refused_in_one_line(text: str) -> None:
    """Wrong types, sizes and depths cost one clear line, in the kubelet's words or in ours."""
    found = complaints(text, gate=True)

    assert found
    assert not any("\n" in message or len(message) > 500 for message in found)


def test_garbled_files_never_crash_a_reader() -> None:
    """Random damage to real files ends in a value or in one of our errors."""
    source = random.Random(20_261_122)
    refusals = 0
    for example in EXAMPLES:
        for _ in range(40):
            text = list(example["content"])
            for _ in range(source.randint(1, 4)):
                text[source.randrange(len(text))] = source.choice('{}[]",:0123456789-aN')
            refusals += len(complaints("".join(text), gate=source.random() < 0.5))

    assert refusals > 500


def test_a_key_twice_is_read_as_the_kubelet_reads_it() -> None:
    """Go's reader takes the last text, and adds the second map's pods to the first's; so does its checksum."""
    pods = {"u1": {"a": "1"}, "u2": {"b": "2"}}
    good = {"policyName": "static", "defaultCpuSet": "0", "entries": pods}
    checksum = fnv32a(cpu_hashed_text("static", "0", pods, {}))
    text = f"""{{"policyName": "none", "defaultCpuSet": "0-9", "entries": {{"u1": {{"x": "9"}}, "u2": {{"b": "2"}}}},
        "policyName": "static", "defaultCpuSet": "0", "entries": {{"u1": {{"a": "1"}}}}, "checksum": {checksum}}}"""

    state = restore_cpu_state(text, "static", pod_level=True)

    assert state == restore_cpu_state(json.dumps({**good, "checksum": checksum}), "static", pod_level=True)
