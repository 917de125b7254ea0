"""Interrupts and where they may be delivered: what the faults about CPUs read.

Source: Documentation/core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

import os
from pathlib import Path

from toolkit.host.cgroup_mounts import read_control
from toolkit.text import names


def numbers(root: Path) -> list[int]:
    """Return the interrupts that have a folder below ``/proc/irq``."""
    try:
        entries = os.listdir(root / "proc/irq")  # noqa: PTH208 - names only
    except OSError:
        return []
    return sorted(int(name) for name in entries if name.isdigit())


def affinity(root: Path, irq: int) -> tuple[str, str]:
    """Return path and content of an interrupt's CPU list; empty where it has none."""
    path = root / f"proc/irq/{irq}/smp_affinity_list"
    return names.from_path(path), (read_control(path) or "").strip()


def interrupt_counts(root: Path) -> dict[int, int]:
    """Return how often each numbered interrupt came, all CPUs."""
    counts = {}
    for line in (read_control(root / "proc/interrupts") or "").split("\n")[1:]:
        number, _, rest = line.partition(":")
        if number.strip().isdigit():
            columns = []
            for word in rest.split():
                if not word.isdigit():
                    break
                columns.append(int(word))
            counts[int(number)] = sum(columns)
    return counts
