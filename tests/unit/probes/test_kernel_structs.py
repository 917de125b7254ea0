"""Offsets from BTF bytes that the test encodes itself."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from probes.kernel_structs import offsets
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.host.btf import Btf


def btf(*types: bytes, strings: bytes) -> bytes:
    body = b"".join(types)
    return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(body), len(body), len(strings)) + body + strings


def a_struct(name: int, *members: tuple[int, int, int], kind: int = 4) -> bytes:
    head = struct.pack("<III", name, kind << 24 | len(members), 64)
    return head + b"".join(struct.pack("<III", *member) for member in members)


STRINGS = b"\0cat\0tail\0paw\0claw\0"
CAT, TAIL, PAW, CLAW = 1, 5, 10, 14
INT = struct.pack("<III", 0, 1 << 24, 4) + struct.pack("<I", 32)


def test_members_are_found_through_anonymous_unions() -> None:
    """An anonymous part counts with its own offset, also where it is described after the struct."""
    inner_first = btf(
        INT, a_struct(0, (PAW, 1, 0), (CLAW, 1, 32)), a_struct(CAT, (TAIL, 1, 0), (0, 2, 64)), strings=STRINGS
    )
    inner_last = btf(
        INT, a_struct(CAT, (TAIL, 1, 0), (0, 3, 64)), a_struct(0, (PAW, 1, 0), (CLAW, 1, 32)), strings=STRINGS
    )
    wanted = {"cat": ("tail", "claw")}

    assert Btf(inner_first).offsets(wanted) == {"cat.tail": 0, "cat.claw": 12}
    assert Btf(inner_last).offsets(wanted) == {"cat.tail": 0, "cat.claw": 12}


@pytest.mark.parametrize("wanted", [{"dog": ("tail",)}, {"cat": ("wing",)}])
def test_what_is_missing_is_named(wanted: dict[str, tuple[str, ...]]) -> None:
    """A kernel without the struct or member cannot be read, and the message says which."""
    data = btf(INT, a_struct(CAT, (TAIL, 1, 0)), strings=STRINGS)

    with pytest.raises(InputError, match=r"dog|wing"):
        Btf(data).offsets(wanted)


@pytest.mark.parametrize("data", [b"", b"\x9f\xeb", b"\0" * 64])
def test_garbage_is_host_unsupported(tmp_path: Path, data: bytes) -> None:
    """Broken BTF ends in one clear error, never in another exception."""
    path = tmp_path / "sys/kernel/btf/vmlinux"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)

    with pytest.raises(HostUnsupportedError):
        offsets(tmp_path)


def test_kernel_without_btf_says_which_option(tmp_path: Path) -> None:
    """The message names the kernel option."""
    with pytest.raises(HostUnsupportedError, match="CONFIG_DEBUG_INFO_BTF"):
        offsets(tmp_path)
