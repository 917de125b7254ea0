"""Who did what a rule found: wrote a control file, set a mask, moved a task. No verdict rests on it.

The words are one for all: ``by COMM (pid N) at HH:MM:SS.mmm UTC``. The author of a value is who changed it to that: not
who wrote the same again, nor whom the kernel refused, nor who wrote before a reading that was still right. A reading
shows a value some time after it was written: to the cgroup's own file, or else, for CPU sets and memory nodes, to that
of a cgroup above, which narrows what is below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from toolkit.model.blind_spots import TELLS_AUTHORS
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, ControlWrite, Evidence
from toolkit.model.measures import words
from toolkit.model.verdict import Measure
from toolkit.model.wording import clock, count, since_open
from validators.queries import file_history

CPUS = ("cpuset.cpus", "cpuset.cpus.partition", "cpuset.cpus.exclusive", "cpuset.cpu_exclusive")
MEMS = ("cpuset.mems",)
QUOTA = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
BURST = ("cpu.max.burst", "cpu.cfs_burst_us")
WEIGHT = ("cpu.weight", "cpu.weight.nice", "cpu.idle", "cpu.shares")
MEMORY = ("memory.max", "memory.limit_in_bytes")
_INHERITED = frozenset((*CPUS, *MEMS))
READ_NS = 20_000_000
"""A reading is dated when it begins, and one file of it may be read so much later."""
EVER_NS = -(1 << 62)
"""``after_ns`` where no reading before was right."""


def by(evidence: Evidence, comm: str, pid: int, at_ns: int, *, tid: int = 0, own: bool = False) -> str:
    """Say who did something and when, for a sentence: ``by sh (pid 4711) at 12:03:04.123 UTC``.

    :param pid: the process; 0: only the thread is known (runs from before processes were kept).
    :param tid: its thread. :param at_ns: since the window opened. :param own: pinproof itself.
    """
    return f"by {who(comm, pid, tid=tid, own=own)} {when(evidence, at_ns)}"


def who(comm: str, pid: int, *, tid: int = 0, own: bool = False) -> str:
    """Name a task: ``sh (pid 4711)``, ``sh (pid 4711, thread 4712)``."""
    process = f"pid {pid}" if pid else ""
    thread = f"thread {tid}" if tid and tid != pid else ""
    return f"{comm} ({', '.join(part for part in (process, thread, 'pinproof itself' if own else '') if part)})"


def when(evidence: Evidence, at_ns: int) -> str:
    """Say when something was: on the wall clock where that is known, and of what was before the window how long ago."""
    wall = clock(evidence.started_at, at_ns)
    if not wall:
        return since_open(at_ns)
    return f"at {wall}" if at_ns >= 0 else f"at {wall}, {since_open(at_ns)}"


MEASURES = (*words("written_file", "written_value", "written_at_ms", "writer_pid", "writer_tid", "writer_comm"),)
"""What :func:`of` adds to a verdict."""


def of(
    claim: Claim,
    evidence: Evidence,
    files: Iterable[str],
    measures: dict[str, Measure],
    *,
    seen_ns: int,
    after_ns: int = 0,
    cgroup: str = "",
) -> str:
    """Return the author, for the end of a sentence, or why none is known. The author is among the measures, too.

    :param files: names that the value has, in both hierarchies.
    :param seen_ns: the first reading with the wrong value. :param after_ns: the reading before it, which was right;
        :data:`EVER_NS`: there was none.
    :param cgroup: another one than the claim's own. Empty for a picture of a node: nobody watched.
    """
    wanted = tuple(files)
    if evidence.picture is not None or not wanted:
        return ""
    author = _author(cgroup or claim.cgroup, evidence, frozenset(wanted), seen_ns, after_ns)
    if author is None:
        why = _why_unknown(evidence, seen_ns, after_ns)
        return f"; who wrote it is not known: {why}" if why else ""
    row = author.row
    measures |= {
        "written_file": row.file,
        "written_value": row.value,
        "written_at_ms": row.at_ns / 1e6,
        "writer_pid": row.pid,
        "writer_tid": row.tid,
        "writer_comm": row.comm,
    }
    subject = claim.name if row.cgroup == claim.cgroup else row.cgroup
    many = f", the last of {author.changes} changes" if author.changes > 1 else ""
    again = f", and the same again {count(author.repeats, 'time')}" if author.repeats else ""
    done = by(evidence, row.comm, row.pid, row.at_ns, tid=row.tid, own=row.own)
    return f"; {row.file} of {subject} was written {done}: '{row.value}'{many}{again}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Author:
    """The write that changed a value. :param changes: of that file since it was right. :param repeats: of the same."""

    row: ControlWrite
    changes: int
    repeats: int


def _author(cgroup: str, evidence: Evidence, files: frozenset[str], seen_ns: int, after_ns: int) -> _Author | None:
    known = [
        row
        for row in evidence.control_writes or ()
        if row.errno == 0 and row.file in files and after_ns < row.at_ns <= seen_ns + READ_NS
    ]
    above = cgroup.rstrip("/") + "/"
    own = [row for row in known if row.cgroup == cgroup]
    upper = [
        row
        for row in known
        if row.cgroup != cgroup and row.file in _INHERITED and above.startswith(row.cgroup.rstrip("/") + "/")
    ]
    for rows in (own, upper):
        found = [
            author
            for (where, file), writes in _by_file(rows).items()
            if (author := _changed(writes, *_read(evidence, where, file, seen_ns, after_ns), seen_ns)) is not None
        ]
        if found:
            return max(found, key=lambda author: author.row.at_ns)
    return None


def _by_file(rows: Iterable[ControlWrite]) -> dict[tuple[str, str], list[ControlWrite]]:
    found: dict[tuple[str, str], list[ControlWrite]] = {}
    for row in sorted(rows, key=lambda row: row.at_ns):
        found.setdefault((row.cgroup, row.file), []).append(row)
    return found


def _read(
    evidence: Evidence, cgroup: str, file: str, seen_ns: int, after_ns: int
) -> tuple[CgroupFiles | None, CgroupFiles | None]:
    """Return the last reading that was right, and the one that was not."""
    history = file_history.readings(evidence, cgroup)
    before = [files for at_ns, files in history if at_ns <= after_ns]
    until = [files for at_ns, files in history if at_ns <= seen_ns]
    return before[-1] if before else None, until[-1] if until else None


def _changed(
    writes: Sequence[ControlWrite], before: CgroupFiles | None, seen: CgroupFiles | None, seen_ns: int
) -> _Author | None:
    """Return the first write of the last of those that the reading shows; ``None``: none changed anything.

    :param writes: to one file, in order of time. :param before: what it said before them, where that was read.
    """
    runs = [list(group) for _, group in groupby(writes, key=_value_of)]
    if runs and _shows(before, runs[0][0]):
        runs = runs[1:]  # it said so before
    # What was written just after the reading began may not be in it: then it is not what was read.
    shown = [run for run in runs if _shows(seen, run[0])] or [
        run for run in runs if _shows(seen, run[0]) is None and run[0].at_ns <= seen_ns + READ_NS
    ]
    if not shown:
        return None
    run = shown[-1]
    return _Author(row=run[0], changes=runs.index(run) + 1, repeats=len(run) - 1)


def _value_of(row: ControlWrite) -> object:
    said = said_by(row.file, row.value)
    return row.value if said is None else tuple(said.items())


def _shows(files: CgroupFiles | None, row: ControlWrite) -> bool | None:
    """Return whether a reading shows what was written; ``None``: that cannot be told."""
    said = said_by(row.file, row.value)
    if files is None or said is None:
        return None
    read = {name: getattr(files, name) for name in said}
    return None if None in read.values() else read == said


def said_by(file: str, value: str) -> Mapping[str, object] | None:
    """Return what a value says, by the name that a reading has for it; ``None``: no reading shows it as it is.

    No quota is -1, by whichever word.
    """
    words = value.split()
    try:
        match file:
            case "cpuset.cpus" | "cpuset.mems":
                return {file.removeprefix("cpuset."): CpuSet.parse(value)}
            case "cpu.max":
                quota: dict[str, object] = {"quota_us": -1 if words[0] == "max" else int(words[0])}
                return quota | ({"period_us": int(words[1])} if len(words) > 1 else {})
            case "cpu.cfs_quota_us":
                return {"quota_us": max(-1, int(value))}
            case "cpu.cfs_period_us":
                return {"period_us": int(value)}
            case "cpu.max.burst" | "cpu.cfs_burst_us":
                return {"burst_us": int(value)}
            case "cpu.weight":
                return {"weight": int(value)}
            case "cpu.shares":
                return {"shares": int(value)}
    except (ValueError, IndexError):
        return None
    return None


def _why_unknown(evidence: Evidence, seen_ns: int, after_ns: int) -> str:
    """Say why no author is known, and with which option he would be; empty where nobody ever looked (old runs)."""
    if evidence.control_writes is None:
        return unseen(evidence, "who writes control files")
    if evidence.coverage.control_writes_dropped:
        return f"{count(evidence.coverage.control_writes_dropped, 'write')} not reported"
    if seen_ns <= 0 or after_ns == EVER_NS:
        return "it was so when the watch began"
    return "no write to it was seen since it was right"


def unseen(evidence: Evidence, what: str) -> str:
    """Return why nobody saw it, as the observer said, with the option that would tell; empty where it did not say.

    :param what: how the observer's words for it begin.
    """
    said = next((text for text in evidence.coverage.blind_spots if text.startswith(what)), "")
    if not said:
        return ""
    return "this kernel does not tell" + (f", `{TELLS_AUTHORS}` does" if TELLS_AUTHORS in said else "")
