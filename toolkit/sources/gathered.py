"""Claims of what a tool listed: what cannot be a claim is left out and said, never a traceback and never silence.

Shared by the sources beside the kubelet (:mod:`podman`, :mod:`docker`, :mod:`systemd`, :mod:`slurm`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from toolkit.errors import HostUnsupportedError, InputError
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import MissingPart
from toolkit.sources.claims_file import MAX_CLAIMS, MAX_NUMBER, check_claims
from toolkit.sources.live_source import SourceReading
from toolkit.text.names import from_text, printable

MAX_NAME = 200
MIN_QUOTA_US, MIN_PERIOD_US, MAX_PERIOD_US = 1000, 1000, 1_000_000
"""What the kernel takes (kernel/sched/core.c: ``min_cfs_quota_period``, ``max_cfs_quota_period``)."""


class Gathering:
    """Collects claims and what is missing."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._cgroups: set[str] = set()
        self._missing: dict[tuple[str, str], None] = {}
        self._left_out: dict[str, str] = {}
        self._unpromised: set[str] = set()
        self.complete = True
        """Whether everything that was listed could be asked for: what is missing has ended."""

    def missing(self, part: str, reason: str) -> None:
        """Say what was not read and what that costs; once."""
        self._missing[printable(part)[:MAX_NAME], reason] = None

    def add(self, claim: Claim, other_name: str, unwatched: str = "") -> None:
        """Take a claim. :param other_name: where the name is taken: a longer one, with the id.

        :param unwatched: why nothing can watch it although it runs: what it was promised is known all the same.
        """
        claim = replace(claim, name=spelt(claim.name), pod=spelt(claim.pod), container=spelt(claim.container))
        if claim.name in self._claims:
            claim = replace(claim, name=spelt(other_name))
        try:
            if claim.name in self._claims or claim.cgroup in self._cgroups or len(self._claims) >= MAX_CLAIMS:
                raise InputError(claim.name, "another claim has its name or its cgroup, or there are too many", "")
            check_claims(ClaimSet(claims=(claim,)), claim.name)
        except InputError as error:
            self.missing(claim.name, f"{error.found}: left out")
            if claim.cgroup not in self._cgroups:
                self._left_out[claim.name] = error.found
            return
        if unwatched:
            self.missing(claim.name, unwatched)
            self._left_out[claim.name] = unwatched
        self._claims[claim.name] = claim
        self._cgroups.add(claim.cgroup)

    def promises_nothing(self, cgroup: str) -> None:
        """Note that what runs in a cgroup is listed and is promised nothing: what it was promised before has ended."""
        self._unpromised.add(cgroup)

    def has(self, cgroup: str) -> bool:
        """Whether a claim for this cgroup was taken."""
        return cgroup in self._cgroups

    def claims(self) -> tuple[Claim, ...]:
        """Return the claims that were taken."""
        return tuple(self._claims.values())

    def reading(self) -> SourceReading:
        """Return everything together. Exclusive sets that overlap are no error here, but shared CPUs; both are said."""
        claims = ClaimSet(claims=tuple(self._claims.values()))
        missing = tuple(MissingPart(part=part, reason=reason) for part, reason in self._missing)
        left_out = tuple(MissingPart(part=name, reason=reason) for name, reason in self._left_out.items())
        return SourceReading(
            claims=claims,
            missing=missing,
            left_out=left_out,
            unpromised=frozenset(self._unpromised - self._cgroups),
            complete=self.complete,
        )

    def cpus(self, text: str, part: str, what: str) -> CpuSet | None:
        """Read a list of ids, with commas or spaces; ``None``: none was asked for, or nonsense, which is said."""
        try:
            return CpuSet.parse(",".join(text.replace(",", " ").split())) or None
        except InputError as error:
            self.missing(part, f"{what}: {error.found}: it is not judged")
            return None

    def quota(self, quota_us: int | None, period_us: int | None, part: str) -> tuple[int | None, int]:
        """Return a quota that a kernel takes, and its period; ``None``: none was asked for."""
        period = period_us or 100_000
        if not quota_us or quota_us < 0:
            return None, 100_000
        if quota_us < MIN_QUOTA_US or not MIN_PERIOD_US <= period <= MAX_PERIOD_US:
            self.missing(part, f"quota {quota_us} us in {period} us, which no kernel takes: it is not judged")
            return None, 100_000
        return quota_us, period


def spelt(name: str) -> str:
    """Spell a stranger's name on one line, cut."""
    return from_text(name)[:MAX_NAME]


def amount(value: int | None) -> int | None:
    """Return a limit in bytes; zero and less: no limit was asked for."""
    return value if value is not None and 0 < value <= MAX_NUMBER else None


def shares(value: int | None) -> int | None:
    """Return cpu.shares; zero: the default, about which nothing was asked for."""
    return value if value is not None and MIN_SHARES <= value <= MAX_SHARES else None


def slice_path(unit: str) -> str:
    """Return where a slice's cgroup is: ``a-b.slice`` lies in ``a.slice``. Source: systemd.slice(5)."""
    parts = unit.removesuffix(".slice").strip("/").split("-")
    return "".join("/" + "-".join(parts[: n + 1]) + ".slice" for n in range(len(parts)))


def hierarchy_of(root: Path) -> cgroupfs.Hierarchy | None:
    """Return the cgroup mounts of a machine; ``None``: they cannot be read, so nothing can say which cgroups exist."""
    try:
        return cgroupfs.detect(root)
    except (HostUnsupportedError, InputError, OSError):
        return None


def is_there(hierarchy: cgroupfs.Hierarchy | None, cgroup: str) -> bool:
    """Say whether a cgroup exists, where that can be known."""
    try:
        return hierarchy is not None and cgroupfs.exists(hierarchy, cgroup)
    except (InputError, OSError):
        return False
