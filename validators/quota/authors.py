"""What changed a quota, and what refilled it: the end of a sentence about one that was broken. No verdict rests on it.

A write of a quota's own value changes nothing that can be read, and yet gives a whole quota more: the kernel fills the
pool anew with each. Source: kernel/sched/core.c, ``tg_set_cfs_bandwidth`` (``__refill_cfs_bandwidth_runtime``).
"""

from __future__ import annotations

from toolkit.model.evidence import CgroupFiles, ControlWrite
from toolkit.model.verdict import Measure, Outcome
from validators.queries import file_history, writers
from validators.quota import bandwidth
from validators.quota.case import Case, Finding
from validators.wording import milliseconds, plural

FILES = (*writers.QUOTA, *writers.BURST)


def authors(case: Case, finding: Finding, measures: dict[str, Measure]) -> str:
    """Return what wrote the wrong bandwidth, or refilled the right one. The author is among the measures, too."""
    if finding.outcome is not Outcome.FAILED or case.evidence.picture is not None or case.lacking:
        return ""
    wrong = _first_wrong(case, finding.cgroup or case.claim.cgroup)
    if wrong is None and not finding.cgroup:
        return _refilled(case, finding.excess_ns, measures)
    seen_ns, after_ns = wrong or (0, writers.EVER_NS)
    return writers.of(
        case.claim, case.evidence, FILES, measures, seen_ns=seen_ns, after_ns=after_ns, cgroup=finding.cgroup
    )


def _first_wrong(case: Case, cgroup: str) -> tuple[int, int] | None:
    """Return when the bandwidth was first read that is not the promised one, and the reading before that was right.

    Nothing is promised of another cgroup: of that the first change.
    """
    before_ns, before = writers.EVER_NS, None
    for at_ns, files in file_history.readings(case.evidence, cgroup):
        if files.quota_us is None:
            continue
        if cgroup == case.claim.cgroup:
            right = _promised(case, files)
        else:
            right = before is None or _bandwidth(files) == _bandwidth(before)
        if not right:
            return at_ns, before_ns
        before_ns, before = at_ns, files
    return None


def _bandwidth(files: CgroupFiles) -> tuple[int | None, ...]:
    return files.quota_us, files.period_us, files.burst_us


def _promised(case: Case, files: CgroupFiles) -> bool:
    claim = case.claim
    limits = (claim.quota_us or 0, claim.period_us, files.quota_us or 0, files.period_us)
    return bandwidth.same_limit(*limits, by_systemd=True) and (files.burst_us or 0) == claim.burst_us


def _refilled(case: Case, excess_ns: float, measures: dict[str, Measure]) -> str:
    """Return what wrote the value that it had, and how much that can have given."""
    if case.evidence.control_writes is None:
        why = writers.unseen(case.evidence, *writers.WRITES_UNSEEN) if excess_ns > 0 else ""
        return f"; whether its own value was written again, which refills it, is not known: {why}" if why else ""
    rows = [
        row
        for row in case.evidence.control_writes
        if row.cgroup == case.claim.cgroup and row.file in FILES and row.errno == 0 and row.at_ns >= 0
    ]
    if not rows or excess_ns <= 0:
        return ""
    gives_ns = len(rows) * (case.limit.quota_us + case.limit.burst_us) * bandwidth.NS_PER_US
    measures |= {"refills_count": len(rows), "refills_ns": gives_ns}
    cause = ", which is the cause of its excess" if excess_ns <= gives_ns else ""
    again = f"its own value was written again {plural(len(rows), 'time')}, and each write refills it"
    return f"; {again}, by {milliseconds(gives_ns)} in all{cause}: {_by_all(case, rows)}"


def _by_all(case: Case, rows: list[ControlWrite]) -> str:
    """Name what wrote the most, and from when to when."""
    writes: dict[tuple[str, int], list[ControlWrite]] = {}
    for row in rows:
        writes.setdefault((row.comm, row.pid), []).append(row)
    (comm, pid), most = max(writes.items(), key=lambda entry: len(entry[1]))
    text = writers.by(case.evidence, comm, pid, most[0].at_ns)
    until = f", the last {writers.when(case.evidence, most[-1].at_ns)}" if len(most) > 1 else ""
    others = f", {plural(len(rows) - len(most), 'time')} by others" if len(most) < len(rows) else ""
    return f"{text}{until}{others}"
