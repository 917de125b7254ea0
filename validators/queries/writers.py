"""Who wrote the control file that is not as promised: named where the kernel reported it, and no verdict rests on it.

A reading shows a wrong value some time after it was written, so the writer is that of the last accepted write before
the reading: to the cgroup's own file, or else, for CPU sets and memory nodes, to that of a cgroup above, which narrows
what is below it.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.model.claims import Claim
from toolkit.model.evidence import ControlWrite, Evidence
from toolkit.model.verdict import Measure
from validators.wording import plural

CPUS = ("cpuset.cpus", "cpuset.cpus.partition", "cpuset.cpus.exclusive", "cpuset.cpu_exclusive")
MEMS = ("cpuset.mems",)
QUOTA = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
BURST = ("cpu.max.burst", "cpu.cfs_burst_us")
WEIGHT = ("cpu.weight", "cpu.weight.nice", "cpu.idle", "cpu.shares")
MEMORY = ("memory.max", "memory.limit_in_bytes")
_INHERITED = frozenset((*CPUS, *MEMS))
READ_NS = 20_000_000
"""A reading is dated when it begins, and one file of it may be read so much later."""


def of(
    claim: Claim,
    evidence: Evidence,
    files: Iterable[str],
    measures: dict[str, Measure],
    *,
    seen_ns: int,
    after_ns: int = 0,
) -> str:
    """Return the writer, for the end of a sentence; empty if none is known. The writer is among the measures, too.

    :param files: names that the value has, in both hierarchies.
    :param seen_ns: the first reading with the wrong value. :param after_ns: the reading before it.
    """
    rows = _before(claim, evidence, frozenset(files), seen_ns + READ_NS)
    fresh = [row for row in rows if row.at_ns > after_ns]
    chosen = next((found for found in (_own(claim, fresh), fresh, _own(claim, rows), rows) if found), [])
    if not chosen:
        return ""
    last = max(chosen, key=lambda row: row.at_ns)
    measures |= {
        "written_file": last.file,
        "written_value": last.value,
        "written_at_ms": last.at_ns / 1e6,
        "writer_pid": last.pid,
        "writer_tid": last.tid,
        "writer_comm": last.comm,
    }
    subject = claim.name if last.cgroup == claim.cgroup else last.cgroup
    once = "written" if last in fresh else "last written"
    count = sum(row in fresh and row.file == last.file for row in chosen)
    many = f", the last of {plural(count, 'write', 'writes')}" if count > 1 else ""
    return f"; {last.file} of {subject} was {once} {_when(last)} by {_who(last)}: '{last.value}'{many}"


def _before(claim: Claim, evidence: Evidence, files: frozenset[str], until_ns: int) -> list[ControlWrite]:
    above = claim.cgroup.rstrip("/") + "/"
    return [
        row
        for row in evidence.control_writes or ()
        if row.file in files
        and row.errno == 0
        and row.at_ns <= until_ns
        and (row.cgroup == claim.cgroup or (row.file in _INHERITED and above.startswith(row.cgroup.rstrip("/") + "/")))
    ]


def _own(claim: Claim, rows: list[ControlWrite]) -> list[ControlWrite]:
    return [row for row in rows if row.cgroup == claim.cgroup]


def _when(row: ControlWrite) -> str:
    return f"at {row.at_ns / 1e9:.3f} s" if row.at_ns >= 0 else f"{-row.at_ns / 1e9:.1f} s before the window"


def _who(row: ControlWrite) -> str:
    thread = "" if row.tid == row.pid else f", thread {row.tid}"
    return f"{row.comm}[{row.pid}{thread}]{' (pinproof itself)' if row.own else ''}"
