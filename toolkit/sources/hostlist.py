"""Slurm's lists of nodes (``lab[01-03,7],gpu1``). Pure.

Source: scontrol(1), "show hostnames"; slurm.conf(5), NodeName.
"""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\d{1,9}", re.ASCII)


def names_host(text: str, host: str) -> bool:
    """Say whether a list names this host; nonsense names nothing. Compares, and never writes the list out."""
    return any(_matches(part, host) for part in _parts(text))


def _parts(text: str) -> list[str]:
    """Cut at the commas that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for place, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    return [*parts, text[begin:]]


def _matches(pattern: str, host: str) -> bool:
    """Match one name with brackets, from the left; each bracket takes some digits of the host's name."""
    head, bracket, rest = pattern.partition("[")
    if not bracket:
        return pattern == host
    inside, closed, tail = rest.partition("]")
    if not closed or not host.startswith(head):
        return False
    digits = _NUMBER.match(host, len(head))
    lengths = range(1, len(digits[0]) + 1) if digits else ()
    return any(
        _within(inside, host[len(head) : len(head) + n]) and _matches(tail, host[len(head) + n :]) for n in lengths
    )


def _within(ranges: str, number: str) -> bool:
    for word in ranges.split(","):
        first, dash, last = word.partition("-")
        if not _NUMBER.fullmatch(first) or (dash and not _NUMBER.fullmatch(last)):
            continue
        as_wide = len(number) == len(first) or (len(number) > len(first) and not number.startswith("0"))
        if as_wide and int(first) <= int(number) <= int(last or first):
            return True
    return False
