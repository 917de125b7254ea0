"""CPU time and throttling of a claim's cgroup and all its ancestors: the second witness, and where quotas bite.

Source: Documentation/scheduler/sched-bwc.rst ("a parent may throttle too"), docs/facts.md K19.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from probes.cgroups.lives import ZERO, Account, Reading
from probes.node.system import bring_up_to_date
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import CpuCounters, CpuStat, Hierarchy
from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.model.claims import NO_QUOTA, Claim
from toolkit.model.evidence import BandwidthUse, CgroupFiles, ThrottledBelow

MAX_PROCESSES = 512
"""CPU clocks read for one claim before its CPU time is: enough for any container that is not a fork storm."""


MAX_BELOW = 256
"""Cgroups below one claim's that are read."""
Below = Mapping[str, Mapping[str, tuple[int, CpuStat]] | None]
"""By claim, by cgroup below it: inode and counters."""


def unlimited(claim: Claim) -> bool:
    """Return whether a claim was promised to have no quota."""
    return claim.quota_us == NO_QUOTA or (claim.quota_us is None and claim.exclusive)


@lru_cache(maxsize=8192)
def lineage(cgroup: str) -> tuple[str, ...]:
    """Return the cgroup and its ancestors below the root: ``/a/b`` gives ``/a/b``, ``/a``."""
    parts = [part for part in cgroup.split("/") if part]
    return tuple("/" + "/".join(parts[:length]) for length in range(len(parts), 0, -1))


class CgroupCounters:
    """Reads them again and again. :param kept: counters, and lists of what is in a cgroup."""

    def __init__(self, hierarchy: Hierarchy, kept: KeptFiles = NONE_KEPT) -> None:
        self._hierarchy, self._kept = hierarchy, kept
        self._counters = CpuCounters(hierarchy, kept)

    def read_all(self, claims: Iterable[Claim], current: Collection[str] | None = None) -> dict[str, Reading]:
        """Read every level of every claim once, the claims' own cgroups last: next to the ledger's own window edge.

        :param current: claims' cgroups of which the kernel is made to charge first what is running; ``None``: all. The
            reading of another is up to one tick behind.
        """
        claims = tuple(claims)
        own = {claim.cgroup for claim in claims}
        above = {level for claim in claims for level in lineage(claim.cgroup)[1:]} - own
        readings = {cgroup: self.read(cgroup) for cgroup in sorted(above)}
        members = {cgroup: self._processes(cgroup) for cgroup in sorted(own) if current is None or cgroup in current}
        for cgroup in sorted(own):
            bring_up_to_date(members.get(cgroup, ()))
            readings[cgroup] = self.read(cgroup)
        return readings

    def read_below(self, claims: Collection[Claim]) -> Below:
        """Read the throttling of the cgroups below each claim's that was promised no quota, other claims' apart."""
        others = {claim.cgroup for claim in claims}
        return {claim.name: self._below(claim.cgroup, others) for claim in claims if unlimited(claim)}

    def _below(self, top: str, others: Collection[str]) -> dict[str, tuple[int, CpuStat]] | None:
        """Return inode and counters by cgroup; ``None``: there are too many to be read."""
        mount = self._hierarchy.find_controller("cpu")
        found: dict[str, tuple[int, CpuStat]] = {}
        if mount is None:
            return found
        inner: list[str] = []
        for directory, inode in cgroupfs.directories(f"{mount}/{cgroupfs.relative(top)}"):
            cgroup = cgroupfs.spelt(directory, mount)
            if cgroup == top:
                continue
            if cgroup in others or any(cgroup.startswith(f"{one}/") for one in inner):
                inner.append(cgroup)
                continue
            if len(found) >= MAX_BELOW:
                return None
            found[cgroup] = (inode, cgroupfs.read_cpu_stat(self._hierarchy, cgroup))
        return found

    def read(self, cgroup: str) -> Reading:
        """Read one cgroup's counters, and which directories they come from."""
        stat, ids = self._counters.read(cgroup)
        return Reading(ids=ids, stat=stat)

    def keep(self, claims: Iterable[Claim]) -> None:
        """Leave nothing open that these claims do not need."""
        self._counters.keep({level for claim in claims for level in lineage(claim.cgroup)})

    def _processes(self, cgroup: str) -> tuple[int, ...]:
        return cgroupfs.pids(self._hierarchy, cgroup, self._kept)[:MAX_PROCESSES]


def bandwidth_use(
    claim: Claim, accounts: Mapping[str, Account], files: Mapping[str, CgroupFiles], ledger_ns: int | None
) -> list[BandwidthUse]:
    """Make the rows of one claim. Only its own level has a usage by the ledger: others may hold unclaimed tasks."""
    rows = []
    for level, cgroup in enumerate(lineage(claim.cgroup)):
        account, limits = accounts.get(cgroup), files.get(cgroup)
        pair = None if account is None else account.pair()
        if account is None or pair is None:
            continue
        first, last = pair
        rows.append(
            BandwidthUse(
                claim=claim.name,
                cgroup=cgroup,
                level=level,
                window_ns=last.at_ns - first.at_ns,
                usage_ns=_delta(first.usage_ns, last.usage_ns),
                nr_periods=_delta(first.nr_periods, last.nr_periods),
                nr_throttled=_delta(first.nr_throttled, last.nr_throttled),
                throttled_ns=_delta(first.throttled_ns, last.throttled_ns),
                nr_bursts=_delta(first.nr_bursts, last.nr_bursts),
                burst_ns=_delta(first.burst_ns, last.burst_ns),
                quota_us=limits.quota_us if limits else None,
                period_us=limits.period_us if limits else None,
                burst_us=limits.burst_us if limits else None,
                system_ns=_delta(first.system_ns, last.system_ns),
                bpf_usage_ns=ledger_ns - account.unread_ns if level == 0 and ledger_ns is not None else None,
                lives=account.lives,
                unread_ns=account.unread_ns if level == 0 else 0,
                throttled_in=account.throttled_in,
            )
        )
    return rows


def unread_use(claim: Claim, files: CgroupFiles | None, ledger_ns: int) -> BandwidthUse:
    """Make the row of a claim whose own counters were not read twice: what it used is known by the ledger alone."""
    return BandwidthUse(
        claim=claim.name,
        cgroup=claim.cgroup,
        level=0,
        window_ns=0,
        usage_ns=None,
        nr_periods=None,
        nr_throttled=None,
        throttled_ns=None,
        quota_us=files.quota_us if files else None,
        period_us=files.period_us if files else None,
        burst_us=files.burst_us if files else None,
        bpf_usage_ns=0,
        unread_ns=ledger_ns,
    )


def throttled_below(claim: str, first: Below, last: Below) -> list[ThrottledBelow]:
    """Make the rows of one claim."""
    before, rows = first.get(claim) or {}, []
    for cgroup, (inode, stat) in sorted((last.get(claim) or {}).items()):
        known = before.get(cgroup)
        base = known[1] if known is not None and known[0] == inode else ZERO
        throttled = _since(base.nr_throttled, stat.nr_throttled)
        if throttled:
            rows.append(
                ThrottledBelow(
                    claim=claim,
                    cgroup=cgroup,
                    nr_periods=_since(base.nr_periods, stat.nr_periods),
                    nr_throttled=throttled,
                    throttled_ns=_since(base.throttled_ns, stat.throttled_ns),
                )
            )
    return rows


def _since(first: int | None, last: int | None) -> int:
    return max(0, (last or 0) - (first or 0))


def _delta(first: int | None, last: int | None) -> int | None:
    # Counters that run backwards say nothing.
    return last - first if first is not None and last is not None and last >= first else None
