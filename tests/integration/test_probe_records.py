"""The records of the C sources and those of Python are the same: bcc's own description of the structs is the truth."""

from __future__ import annotations

import ctypes
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from probes import compiler
from probes.actions.records import ActionState
from probes.composition import build_request
from probes.interrupts.records import IrqKey, IrqSums
from probes.options import ObserveOptions
from probes.switches import records

pytestmark = [pytest.mark.integration, pytest.mark.idle]


@pytest.fixture(scope="module")
def compiled() -> Any:
    """bcc's own module of the programs: it describes the C structs. The observer has none."""
    request = build_request(Path("/"), ObserveOptions())
    return compiler.build(compiler.source_text(request.sources), request.settings)


@pytest.mark.parametrize(
    ("table", "part", "record"),
    [
        (b"rows", "Leaf", records.Row),
        (b"offenders", "Key", records.OffenceKey),
        (b"offenders", "Leaf", records.Offence),
        (b"intruders", "Key", records.IntruderKey),
        (b"intruders", "Leaf", records.IntruderSums),
        (b"waits", "Key", records.WaitKey),
        (b"waits", "Leaf", records.WaitSums),
        (b"culprits", "Key", records.CulpritKey),
        (b"culprits", "Leaf", records.CulpritSums),
        (b"threads", "Leaf", records.Member),
        (b"state", "Leaf", records.CpuState),
        (b"irqs", "Key", IrqKey),
        (b"irqs", "Leaf", IrqSums),
    ],
)
def test_records_have_the_layout_that_bcc_generated(compiled: Any, table: bytes, part: str, record: type) -> None:
    """Field names, order, offsets and sizes agree between the C structs and the Python records."""
    leaf = getattr(compiled[table], part)
    leaf = getattr(leaf, "_type_", leaf)  # per-CPU tables have arrays of the struct
    described = [(field[0], getattr(leaf, field[0]).offset, getattr(leaf, field[0]).size) for field in leaf._fields_]
    codes = list(record.LAYOUT.format.lstrip("="))
    wanted, offset, digits = [], 0, ""
    names = (field.name for field in dataclasses.fields(record))
    for code in codes:
        if code.isdigit():
            digits += code
            continue
        count, size = int(digits or 1), {"Q": 8, "I": 4, "s": 1}[code]
        digits = ""
        for length in [count] if code == "s" else [size] * count:
            wanted.append((next(names), offset, length))
            offset += length
    assert described[: len(wanted)] == wanted


def test_sizes_of_what_is_written_as_bytes(compiled: Any) -> None:
    """Structs that user space writes or skips over are as large as it believes."""

    def size(table: bytes) -> int:
        leaf = compiled[table].Leaf
        return ctypes.sizeof(getattr(leaf, "_type_", leaf))

    assert size(b"bins") == records.BINS * records.BIN.size
    assert size(b"masks") == records.MASK_BYTES
    assert size(b"roots") == records.CLAIM_ROOT.size
    assert size(b"config") == records.CONFIG.size
    assert size(b"state") == records.CPU_STATE_BYTES
    assert size(b"action_state") == ActionState.LAYOUT.size
