"""Functions that a program calls: put behind it, and described so that the kernel knows them for functions."""

from __future__ import annotations

import os
import re
import struct
from importlib import resources

import pytest

from probes import subprograms
from probes.subprograms import FIRST_NUMBER, FUNCTIONS, link, types
from toolkit.host import bpf_syscalls

INSTRUCTION = struct.Struct("=BBhi")
EXIT = INSTRUCTION.pack(0x95, 0, 0, 0)
GIVE = INSTRUCTION.pack(0xB7, 0x00, 0, 7) + EXIT
"""``r0 = 7; exit``"""


def number(index: int) -> bytes:
    """Return a call of a helper by number."""
    return INSTRUCTION.pack(0x85, 0, 0, FIRST_NUMBER + index)


def function_call(ahead: int) -> bytes:
    """Return a call of a function so many instructions ahead of the next one."""
    return INSTRUCTION.pack(0x85, 0x10, 0, ahead)


HELPER = INSTRUCTION.pack(0x85, 0, 0, 5)


def code_of(name: str) -> bytes:
    return {FUNCTIONS[0]: GIVE, FUNCTIONS[1]: number(0) + EXIT}[name]


def test_a_program_without_functions_stays() -> None:
    """Byte for byte; and helpers stay helpers."""
    linked = link(HELPER + EXIT, code_of)

    assert (linked.code, linked.functions) == (HELPER + EXIT, ())


def test_functions_stand_behind_the_program_once_each() -> None:
    """Each call leads to its function, those that functions make too."""
    linked = link(number(1) + number(0) + HELPER + number(1) + EXIT, code_of)

    # 0 to 4 are the program, 5 and 6 the one called first, 7 and 8 the other one.
    assert linked.functions == ((5, FUNCTIONS[1]), (7, FUNCTIONS[0]))
    assert linked.code == (
        function_call(4) + function_call(5) + HELPER + function_call(1) + EXIT + function_call(1) + EXIT + GIVE
    )


def test_the_numbers_are_those_of_the_source() -> None:
    """Each function is defined there once, with one argument, and called by its number here."""
    folder = resources.files("probes").joinpath("switches")
    text = "".join(folder.joinpath(name).read_text() for name in ("claims.h", "culprits.h", "intervals.h"))

    assert f"(void *)(0x{FIRST_NUMBER:x}UL + (number))" in text
    assert sorted(re.findall(r"^u64 (\w+)\(u64 \w+\)$", text, re.M)) == sorted(FUNCTIONS)
    assert re.findall(r"= SUBPROGRAM\((\d+)\);", text) == [str(index) for index in range(len(FUNCTIONS))]


@pytest.mark.skipif(os.geteuid() != 0, reason="loading a BPF program needs root")
def test_the_kernel_takes_them() -> None:
    """A program that calls two functions is loaded, whose types are these: r1 = 0; r0 = the function's; exit."""
    linked = link(INSTRUCTION.pack(0xB7, 0x01, 0, 0) + number(1) + INSTRUCTION.pack(0xB7, 0x00, 0, 0) + EXIT, code_of)
    fd = bpf_syscalls.load_program(
        bpf_syscalls.RAW_TRACEPOINT, linked.code, name="test", functions=types("test", linked.functions)
    )
    os.close(fd)


def test_a_function_that_is_not_ours_is_none() -> None:
    """A number behind the last one stays what it is: the kernel refuses it, with its number."""
    code = INSTRUCTION.pack(0x85, 0, 0, FIRST_NUMBER + len(FUNCTIONS)) + EXIT

    assert link(code, code_of) == subprograms.Linked(code=code)
