"""BPF subprograms: functions that the verifier goes through once a program, whatever their callers know.

A loop in a function that is put into its callers is gone through again for each state in which they reach it. One that
is a *global* BPF function is verified by itself, once, with arguments of which nothing is known. The kernel knows by a
function's type (BTF) that it is one; bcc makes no types for our loader and drops the place of a call. So the C source
calls the number of a helper that no kernel has; here the function's instructions are put behind the program's, the call
is turned to them, and the few types that there are are written.

Source: Documentation/bpf/btf.rst; Documentation/bpf/standardization/instruction-set.rst ("Program-local functions");
commit 51c39bb1d5d1 "bpf: Introduce function-by-function verification" (Linux 5.6).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from toolkit.errors import HostUnsupportedError

FIRST_NUMBER = 0x70000001
"""``SUBPROGRAM(0)`` in ``switches/claims.h``."""
FUNCTIONS = ("root_at", "current_root", "told_wait", "told_turn", "looked_up")
"""By their numbers there; each takes a u64 and returns one."""
_INSTRUCTION = struct.Struct("=BBhi")
_CALL, _PSEUDO_CALL = 0x85, 1
_INT, _FUNC, _FUNC_PROTO = 1, 12, 13
_STATIC, _GLOBAL = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """A program with the functions behind it. :param functions: where each begins, in instructions, and its name."""

    code: bytes
    functions: tuple[tuple[int, str], ...] = ()


def link(code: bytes, code_of: Callable[[str], bytes]) -> Linked:
    """Put the functions that a program calls behind it.

    :param code_of: a function's instructions.
    :raises HostUnsupportedError: the compiler made none.
    """
    out, functions = bytearray(code), dict[str, int]()
    at = 0
    while at + _INSTRUCTION.size <= len(out):
        operation, registers, offset, number = _INSTRUCTION.unpack_from(out, at)
        index = number - FIRST_NUMBER
        if operation == _CALL and not registers and 0 <= index < len(FUNCTIONS):
            name = FUNCTIONS[index]
            if name not in functions:
                functions[name] = len(out) // _INSTRUCTION.size
                function = code_of(name)
                if not function:
                    raise HostUnsupportedError(f"the compiler made no function {name}")
                out += function
            ahead = functions[name] - at // _INSTRUCTION.size - 1
            _INSTRUCTION.pack_into(out, at, operation, _PSEUDO_CALL << 4, offset, ahead)
        at += _INSTRUCTION.size
    return Linked(code=bytes(out), functions=tuple((start, name) for name, start in functions.items()))


def types(program: str, functions: tuple[tuple[int, str], ...]) -> tuple[bytes, bytes]:
    """Return the types of a program's functions (BTF), and which function begins where (``struct bpf_func_info``).

    :param program: the name of its main function, at instruction 0.
    """
    names = _Names()
    parts = [struct.pack("=IIII", names.add("u64"), _INT << 24, 8, 64)]
    info = []
    argument = struct.pack("=II", names.add("argument"), 1)
    parts.append(struct.pack("=III", 0, _FUNC_PROTO << 24 | 1, 1) + argument)
    for start, name in ((0, program), *functions):
        linkage = _GLOBAL if start else _STATIC
        parts.append(struct.pack("=III", names.add(name), _FUNC << 24 | linkage, 2))
        info.append(struct.pack("=II", start, len(parts)))
    body = b"".join(parts)
    header = struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(body), len(body), len(names.text))
    return header + body + names.text, b"".join(info)


class _Names:
    """The strings of a BTF."""

    def __init__(self) -> None:
        self.text = b"\0"

    def add(self, name: str) -> int:
        place = len(self.text)
        self.text += name.encode() + b"\0"
        return place
