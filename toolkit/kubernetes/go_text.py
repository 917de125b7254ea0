"""Texts as the Go standard library reads and words them, because the kubelet's messages contain them verbatim.

Source: strconv (Atoi, ParseBool, Quote) of the Go documentation; k8s.io/utils/cpuset for the CPU list.
"""

from __future__ import annotations

import re

from toolkit.model.cpuset import MAX_ID, CpuSet

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64_MAX = 2**63 - 1
_QUOTED = {'"': '\\"', "\\": "\\\\"} | dict(
    zip("\a\b\f\n\r\t\v", ("\\a", "\\b", "\\f", "\\n", "\\r", "\\t", "\\v"), strict=True)
)
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class GoError(ValueError):
    """A text that the Go function refuses, with its message."""


def quote(text: str) -> str:
    r"""Write ``%q`` of a string: what cannot be printed as ``\n``, ``\x1b`` or ``\u202e``.

    :param text: a byte that is no UTF-8 (``surrogateescape``) becomes ``\xff``.
    """
    return f'"{"".join(map(_quoted, text))}"'


def quote_byte(text: str) -> str:
    """Write the first byte of a text as encoding/json does in its complaints."""
    char = chr(text.encode("utf-8", "surrogateescape")[0])
    return {"'": r"'\''", '"': "'\"'"}.get(char) or f"'{quote(char)[1:-1]}'"


def _quoted(char: str) -> str:
    if char in _QUOTED:
        return _QUOTED[char]
    # Go prints letters, marks, numbers, punctuation, symbols and the ASCII blank, which is what Python prints, too.
    if char.isprintable():
        return char
    number = ord(char)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    if 0xD800 <= number <= 0xDFFF:
        # What Go holds is U+FFFD: no Go string has a lone surrogate that came from JSON or YAML.
        return "\ufffd"
    if number < 0x20 or number == 0x7F:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def atoi(text: str) -> int:
    """Read an integer.

    :raises GoError: with strconv's message.
    """
    if not _INT.fullmatch(text):
        raise GoError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if len(text) > 21 or not -_INT64_MAX - 1 <= int(text) <= _INT64_MAX:
        raise GoError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return int(text)


def parse_bool(text: str) -> bool:
    """Read a truth value.

    :raises GoError: with strconv's message.
    """
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise GoError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")


def parse_cpu_list(text: str) -> CpuSet:
    """Read a CPU list as the kubelet does: no blanks, no strides.

    :raises GoError: with the message of the library; ids above :data:`toolkit.model.cpuset.MAX_ID` too.
    """
    mask = 0
    for part in text.split(",") if text else ():
        first_text, dash, last_text = part.partition("-")
        first = atoi(first_text)
        last = atoi(last_text) if dash else first
        if first > last:
            raise GoError(f"invalid range {quote(part)} ({first} > {last})")
        if first < 0 or last > MAX_ID:
            raise GoError(f"CPU id {last if last > MAX_ID else first} out of range")
        mask |= ((1 << (last - first + 1)) - 1) << first
    return CpuSet(mask)
