"""Texts as the Go standard library reads and words them, because the kubelet's messages contain them verbatim.

Source: strconv (Atoi, ParseBool, Quote) of the Go documentation; k8s.io/utils/cpuset for the CPU list.
"""

from __future__ import annotations

import json
import re

from toolkit.model.cpuset import MAX_ID, CpuSet

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64_MAX = 2**63 - 1
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class GoError(ValueError):
    """A text that the Go function refuses, with its message."""


def quote(text: str) -> str:
    """Write ``%q`` of a string."""
    return json.dumps(text, ensure_ascii=False)


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
