"""What did what a rule found: wrote a control file or a state file, set a mask, moved a task. No verdict rests on it.

The words are one for all: ``by COMM (pid N) at HH:MM:SS.mmm UTC``. The author of a value is what changed it to that:
not what wrote the same again, nor what the kernel refused, nor what wrote before a reading that was still right. A
reading shows a value some time after it was written: to the cgroup's own file, or else, for CPU sets and memory nodes,
to that of a cgroup above, which narrows what is below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from toolkit.model.actions import AffinityChange
from toolkit.model.blind_spots import STATE_AUTHORS, TELLS_AUTHORS
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.evidence import CgroupFiles, ControlWrite, Evidence, StateWrite
from toolkit.model.measures import words
from toolkit.model.memory_units import NO_LIMIT, limit_in_force
from toolkit.model.state_files import KUBELETS
from toolkit.model.verdict import Measure
from toolkit.text.wording import clock, count, since_open
from validators.queries import file_history, view

CPUS = ("cpuset.cpus", "cpuset.cpus.partition", "cpuset.cpus.exclusive", "cpuset.cpu_exclusive")
MEMS = ("cpuset.mems",)
QUOTA = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
BURST = ("cpu.max.burst", "cpu.cfs_burst_us")
WEIGHT = ("cpu.weight", "cpu.weight.nice", "cpu.idle", "cpu.shares")
IDLE = ("cpu.idle",)
MEMORY = ("memory.max", "memory.limit_in_bytes")
HIGH = ("memory.high",)
_INHERITED = frozenset((*CPUS, *MEMS))
WRITES_UNSEEN = ("what writes control files", "who writes control files")
"""How the observer's words begin for writes that it does not see; the second in runs saved before."""
READ_NS = 20_000_000
"""A reading is dated when it begins, and one file of it may be read so much later."""
NAMELESS = "a process that has ended"
"""Stands where the name of a process would."""
UNTOLD = "by a process that the kernel reports to CAP_SYS_ADMIN alone"
EVER_NS = -(1 << 62)
"""``after_ns`` where no reading before was right."""


def by(evidence: Evidence, comm: str, pid: int, at_ns: int, *, tid: int = 0, own: bool = False) -> str:
    """Say what did something and when, for a sentence: ``by sh (pid 4711) at 12:03:04.123 UTC``.

    :param pid: the process; 0: only the thread is known (runs from before processes were kept).
    :param tid: its thread. :param at_ns: since the window opened. :param own: pinproof itself.
    """
    return f"by {named(comm, pid, tid=tid, own=own)} {when(evidence, at_ns)}"


def named(comm: str, pid: int, *, tid: int = 0, own: bool = False) -> str:
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
"""What :func:`of` and :func:`of_state` add to a verdict."""
PLACED = (*words("author_did", "author_at_ms", "author_pid", "author_tid", "author_comm"),)
"""What :func:`placed` adds."""


def of(
    claim: Claim,
    evidence: Evidence,
    files: Iterable[str],
    measures: dict[str, Measure],
    *,
    seen_ns: int,
    after_ns: int = 0,
    cgroup: str = "",
    end_ns: int | None = None,
) -> str:
    """Return the author, for the end of a sentence, or why none is known. The author is among the measures, too.

    :param files: names that the value has, in both hierarchies.
    :param seen_ns: the first reading with the wrong value. :param after_ns: the reading before it, which was right;
        :data:`EVER_NS`: there was none.
    :param cgroup: another one than the claim's own. :param end_ns: when the cgroup was gone, where it was.
    Empty for a picture of a node: nothing watched.
    """
    wanted = tuple(files)
    if evidence.picture is not None or not wanted:
        return ""
    author = _author(cgroup or claim.cgroup, evidence, frozenset(wanted), seen_ns, after_ns, end_ns)
    if author is None:
        why = _why_unknown(evidence, seen_ns, after_ns)
        return f"; which task wrote it is not known: {why}" if why else ""
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


def of_state(evidence: Evidence, file: str, measures: dict[str, Measure], *, seen_ns: int, written_at: str = "") -> str:
    """Return what wrote a kubelet's state file, or why that is not known, to end a sentence.

    Of what a kubelet wrote, the last before it that was written by anything else is named, too: a kubelet that starts
    takes what the file says for its own, and says it again.

    :param file: its name. :param seen_ns: the first reading that was wrong.
    :param written_at: the file's own time, ISO 8601.
    """
    known = [row for row in evidence.state_writes or () if row.file == file and row.at_ns <= seen_ns + READ_NS]
    if not known:
        return _no_state_author(evidence, file, written_at)
    others = [row for row in known if row.comm not in KUBELETS]
    row = known[-1]
    measures |= {"written_file": file, "written_at_ms": row.at_ns / 1e6, "writer_pid": row.pid, "writer_comm": row.comm}
    if row in others:
        return f"; {file} was {_state_written(evidence, row)}"
    before = f", before that {_state_written(evidence, others[-1])}" if others else ""
    return f"; {file} was {_state_written(evidence, row)}, the kubelet itself{before}"


def _state_written(evidence: Evidence, row: StateWrite) -> str:
    if not row.pid:
        return f"{row.did} {when(evidence, row.at_ns)}, {UNTOLD}"
    return f"{row.did} {by(evidence, row.comm or NAMELESS, row.pid, row.at_ns, own=row.own)}"


def _no_state_author(evidence: Evidence, file: str, written_at: str) -> str:
    if any(reading.modelled for reading in evidence.state_files):
        return ""
    said = next((text for text in evidence.coverage.blind_spots if text.startswith(STATE_AUTHORS)), "")
    why = "nothing has changed it since the watch began"
    if said:
        why = f"this kernel does not tell ({said.removeprefix(STATE_AUTHORS).lstrip(': ')})"
    elif evidence.state_writes is None:
        why = "no witness saw that"
    elif any(row.file == file for row in evidence.state_writes):
        why = "it was so before the first change that was seen"
    wall = clock(written_at, 0)
    if wall:
        return f"; {file} was last written on {written_at[:10]} at {wall}, by which task is not known: {why}"
    return f"; which task wrote {file} is not known: {why}"


def placed(
    claim: Claim,
    evidence: Evidence,
    tid: int,
    outside: CpuSet,
    measures: dict[str, Measure],
    *,
    seen_ns: int,
    after_ns: int = EVER_NS,
    comm: str = "",
) -> str:
    """Return what let a thread run on CPUs that are not its claim's, or why nothing is known, to end a sentence.

    The last of what could do it: its mask was set, the claim's CPU set was written, it was moved to another cgroup.

    :param seen_ns: when it was there. :param after_ns: when it could not be there yet, where that is known.
    :param comm: the thread's name, where the sentence has not named it.
    """
    if evidence.picture is not None:
        return ""
    it = f"thread {tid} ({comm})" if comm else f"thread {tid}"
    pid = next((row.pid for row in view.by_claim(evidence.thread_masks).get(claim.name, ()) if tid in row.tids), 0)
    found = [
        deed
        for deed in (
            _mask_set(evidence, it, tid, pid, outside, seen_ns),
            _set_written(claim, evidence, outside, seen_ns),
            _moved(claim, evidence, it, tid, pid, seen_ns),
        )
        if deed is not None and deed.at_ns > after_ns - READ_NS
    ]
    if not found:
        why = _why_unplaced(evidence)
        return f"; which task let {it} run there is not known: {why}" if why else ""
    deed = max(found, key=lambda one: one.at_ns)
    measures |= {
        "author_did": deed.what,
        "author_at_ms": deed.at_ns / 1e6,
        "author_pid": deed.pid,
        "author_tid": deed.tid,
        "author_comm": deed.comm,
    }
    return f"; {deed.text} {by(evidence, deed.comm, deed.pid, deed.at_ns, tid=deed.tid)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deed:
    """What let a thread run somewhere. :param text: in words, before what it was done by."""

    what: str
    text: str
    at_ns: int
    comm: str
    pid: int
    tid: int


T = TypeVar("T", AffinityChange, ControlWrite)


def _letting(rows: Iterable[T], reaches: Callable[[T], bool], seen_ns: int) -> T | None:
    """Return the one that let it there: the first of the last of them that did, and that none took back until then.

    A call is dated when it has returned, which may be a little after what was let there had run.
    """
    known = sorted((row for row in rows if row.at_ns <= seen_ns + READ_NS), key=lambda row: row.at_ns)
    runs = [(reach, list(group)) for reach, group in groupby(known, key=reaches)]
    before = [(reach, group) for reach, group in runs if group[0].at_ns <= seen_ns]
    if before and before[-1][0]:
        return before[-1][1][0]
    return next((group[0] for reach, group in runs[len(before) :] if reach), None)


def _mask_set(evidence: Evidence, it: str, tid: int, pid: int, outside: CpuSet, seen_ns: int) -> _Deed | None:
    """Return what set its mask so, or that of its process's first thread, with which others begin."""
    for thread, whose in ((tid, it), (pid, f"the first thread of the process of {it}")):
        calls = [row for row in evidence.affinity_changes or () if thread and row.tid == thread and row.errno == 0]
        row = _letting(calls, lambda one: bool(one.cpus & outside), seen_ns)
        if row is not None:
            text, call = f"the mask of {whose} was set to {cpus_text(row.cpus)}", row.caller_pid
            return _Deed(what="mask", text=text, at_ns=row.at_ns, comm=row.caller_comm, pid=call, tid=row.caller_tid)
        if calls:
            return None
    return None


def _set_written(claim: Claim, evidence: Evidence, outside: CpuSet, seen_ns: int) -> _Deed | None:
    """Return what wrote such a set to the claim's cgroup, or else to one above it."""

    def reaches(row: ControlWrite) -> bool:
        said = (said_by(row.file, row.value) or {}).get("cpus")
        return isinstance(said, CpuSet) and bool(said & outside)

    writes = _by_file(row for row in evidence.control_writes or () if row.errno == 0 and row.file == "cpuset.cpus")
    for cgroup in _lineage(claim.cgroup):
        row = _letting(writes.get((cgroup, "cpuset.cpus"), ()), reaches, seen_ns)
        first = view.files_of(evidence.files_before, cgroup)
        stood = first is not None and first.cpus is not None and bool(first.cpus & outside)
        if row is None or (stood and 0 <= row.at_ns == writes[row.cgroup, row.file][0].at_ns):
            continue  # it said so before
        subject = claim.name if cgroup == claim.cgroup else cgroup
        text = f"{row.file} of {subject} was set to {row.value}"
        return _Deed(what="cpuset", text=text, at_ns=row.at_ns, comm=row.comm, pid=row.pid, tid=row.tid)
    return None


def _lineage(cgroup: str) -> Iterator[str]:
    while cgroup:
        yield cgroup
        cgroup = cgroup.rpartition("/")[0]


def _moved(claim: Claim, evidence: Evidence, it: str, tid: int, pid: int, seen_ns: int) -> _Deed | None:
    """Return its last move, with its whole process or alone, between cgroups that decide where it may run."""
    moves = [
        row
        for row in evidence.cgroup_moves
        if (row.tid == tid or (row.whole_process and pid and row.pid == pid))
        and claim.name in (row.from_claim, row.to_claim)
        and {"v2", "cpuset"} & {row.hierarchy, *row.hierarchy.split(",")}
        and row.at_ns <= seen_ns + READ_NS
    ]
    if not moves:
        return None
    before = [row for row in moves if row.at_ns <= seen_ns]
    row = before[-1] if before else moves[0]  # in order of time
    text = f"{it} was moved to {row.cgroup} ({row.hierarchy})"
    return _Deed(what="move", text=text, at_ns=row.at_ns, comm=row.writer_comm, pid=row.writer_pid, tid=row.writer_tid)


def _why_unplaced(evidence: Evidence) -> str:
    if evidence.affinity_changes is None:
        return unseen(evidence, "changes of affinity masks")
    lost = evidence.coverage.affinity_changes_dropped + evidence.coverage.cgroup_moves_dropped
    if lost:
        return f"{count(lost, 'call')} not reported"
    return "no task was seen to set its mask, to write its CPU set or to move it in this window before that"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Author:
    """The write that changed a value. :param changes: of that file since it was right. :param repeats: of the same."""

    row: ControlWrite
    changes: int
    repeats: int


def _author(
    cgroup: str, evidence: Evidence, files: frozenset[str], seen_ns: int, after_ns: int, end_ns: int | None
) -> _Author | None:
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
            if (author := _changed(writes, *_read(evidence, where, seen_ns, after_ns, end_ns), seen_ns)) is not None
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
    evidence: Evidence, cgroup: str, seen_ns: int, after_ns: int, end_ns: int | None
) -> tuple[CgroupFiles | None, CgroupFiles | None]:
    """Return the last reading that was right, and the one that was not."""
    history = file_history.readings(evidence, cgroup, end_ns)
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
            case "cpu.idle":
                return {"idle": int(value) == 1}
            case "memory.high":
                return {"memory_high_bytes": NO_LIMIT if value == "max" else limit_in_force(int(value))}
    except (ValueError, IndexError):
        return None
    return None


def _why_unknown(evidence: Evidence, seen_ns: int, after_ns: int) -> str:
    """Say why no author is known, and which option would tell; empty where nothing ever looked (old runs)."""
    if evidence.control_writes is None:
        return unseen(evidence, *WRITES_UNSEEN)
    if evidence.coverage.control_writes_dropped:
        return f"{count(evidence.coverage.control_writes_dropped, 'write')} not reported"
    if seen_ns <= 0 or after_ns == EVER_NS:
        return "it was so when the watch began"
    return "no write to it was seen since it was right"


def unseen(evidence: Evidence, *heads: str) -> str:
    """Return why nothing saw it, as the observer said, with the option that would tell; empty where it did not say.

    :param heads: how the observer's words for it begin.
    """
    said = next((text for text in evidence.coverage.blind_spots if text.startswith(heads)), "")
    if not said:
        return ""
    return "this kernel does not tell" + (f", `{TELLS_AUTHORS}` does" if TELLS_AUTHORS in said else "")
