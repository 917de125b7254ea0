"""Control files that decide what a promise is worth: what is wrong with them, and what they do that nothing promised.

A file that the kernel does not have says nothing. Facts only; the rule says what follows.
Source: Documentation/admin-guide/cgroup-v2.rst (``cpu.idle``, ``cpuset.cpus.partition``, ``cpu.uclamp.*``,
``memory.high``); kernel/sched/core.c (``cpu_uclamp_*``: limits of a cgroup hold for all below it).
"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.model.claims import Claim
from toolkit.model.evidence import CgroupFiles, Evidence
from toolkit.model.measures import words as measured
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.verdict import Measure
from toolkit.text.wording import first_of
from validators.queries import view

IDLE, HIGH = "cpu.idle", "memory.high"
_USUAL: dict[str, object] = {
    "idle": False,
    "partition": "member",
    "uclamp_min_percent": 0.0,
    "uclamp_max_percent": 100.0,
    "memory_high_bytes": NO_LIMIT,
    "memory_min_bytes": 0,
    "memory_low_bytes": 0,
    "swap_max_bytes": NO_LIMIT,
}
"""What the kernel writes into the files of a cgroup that it makes."""
MEASURES = measured(*_USUAL, *(f"{name}_above" for name in _USUAL))
"""Where a file says something else, what it says; of the nearest cgroup above in which one does."""


def idle_problem(claim: Claim, files: CgroupFiles) -> Iterator[tuple[str, str]]:
    """Yield the file, and what is wrong with it, of a claim that was promised a weight."""
    if files.idle is not None:
        shares = "a sum of" if claim.shares is None else str(claim.shares)
        promised = f"{shares} shares" if claim.weight is None else f"a weight of {claim.weight}"
        yield IDLE, f"1 (only where nothing else wants the CPU), promised {promised}" if files.idle else ""


def high_problem(claim: Claim, files: CgroupFiles) -> Iterator[tuple[str, str]]:
    """Yield the file, and what is wrong with it, of a claim that says how low it may be."""
    least, found = claim.memory_high_bytes, files.memory_high_bytes
    if least is None or found is None:
        return
    promised = "max" if least == NO_LIMIT else f"{least} bytes or more"
    # The kernel keeps whole pages of whatever size.
    high_enough = found == NO_LIMIT or (least != NO_LIMIT and found > least - _PAGE)
    yield HIGH, "" if high_enough else f"{found} bytes, promised {promised}"


_PAGE = 65_536
"""The largest page: a value is rounded down to whole ones."""


def words(claim: Claim, evidence: Evidence, measures: dict[str, Measure]) -> str:
    """Return what limits a claim's tasks although nothing was promised about it, for the end of a sentence."""
    found = []
    cgroup, suffix = claim.cgroup, ""
    while cgroup:
        files = view.files_of(evidence.files_after, cgroup)
        if files is not None:
            for name, said in _unusual(files):
                if f"{name}{suffix}" not in measures:
                    measures[f"{name}{suffix}"] = said
                    found.append(_limits(name, said, files, cgroup if suffix else ""))
        cgroup, suffix = cgroup.rpartition("/")[0], "_above"
    said_so = [text for text in found if text]
    return f"; {first_of(said_so, 4)}" if said_so else ""


def _unusual(files: CgroupFiles) -> Iterator[tuple[str, str | float | bool | int]]:
    for name, usual in _USUAL.items():
        said = getattr(files, name)
        if said is not None and said != usual:
            yield name, said


def _limits(name: str, said: str | float | bool | int, files: CgroupFiles, above: str) -> str:
    """Return what a value does to the tasks of a cgroup; empty: it takes nothing from them."""
    of = f" of {above}" if above else ""
    match name:
        case "idle":
            return f"cpu.idle{of} is 1: its tasks run only where nothing else wants the CPU"
        case "partition" if "invalid" in str(said):
            return f"cpuset.cpus.partition{of} is {said}"
        case "partition" if said == "isolated" and len(files.cpus_effective or ()) > 1:
            return f"cpuset.cpus.partition{of} is isolated: the kernel balances no task between its CPUs"
        case "uclamp_max_percent":
            return f"cpu.uclamp.max{of} is {said:g} %: its CPUs may be kept at a low frequency"
        case "memory_high_bytes" if files.memory_max_bytes in (None, NO_LIMIT) or said != files.memory_max_bytes:
            return f"memory.high{of} is {said} bytes: beyond it its tasks are slowed down"
    return ""
