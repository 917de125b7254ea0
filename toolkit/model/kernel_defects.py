"""Kernel versions with known defects of cpusets, CFS bandwidth and weights: what each breaks, and what to do.

By the number of the version: nothing that the kernel shows says more. Distributions carry mended commits under lower
numbers, so each is a disturbance to look into, no proof. Of Debian's kernels the number is in the build, for their
release names the interface ("6.1.0-31-amd64").
Source: docs/facts.md K11, K18, K20, K34; docs/failures.md F58. Patch releases: the announcements of stable kernels
that list the commit (4.14.154, 4.19.84, 5.3.9; 5.15.161, 6.1.93, 6.6.33, 6.8.12, 6.9.3; 6.18.45).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.model.isolation import Finding
from toolkit.model.verdict import Outcome
from toolkit.text.names import printable

Version = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDefect:
    """One defect. :param since: the first version that has it, :param until: the first that has it no more.

    :param mended: major and minor -> the first patch release of that series without it. :param commit: that mended it.
    """

    id: str
    since: Version = (0, 0)
    until: Version
    mended: tuple[tuple[Version, int], ...] = ()
    commit: str
    breaks: str
    remedy: str = ""

    def has(self, version: Version, patch: int) -> bool:
        """Whether a version has it."""
        return self.since <= version < self.until and not any(
            version == series and patch >= first for series, first in self.mended
        )


MASKS_RESET = KernelDefect(
    id="kernel-masks-reset",
    until=(6, 2),
    commit="8f9ea86fdf99",
    breaks="A write to a cpuset, and cpuset turned on or off at the root, give every thread below all CPUs of its "
    "cpuset: masks that programs set for their threads are lost (K11).",
    remedy="let programs set their masks again after a change",
)

DEFECTS = (
    KernelDefect(
        id="kernel-quota-drift",
        until=(4, 18),
        mended=(((4, 14), 154),),
        # What 4.14.154 has is the later commit, which does without expiry. An older one has either defect: 512ac999d275
        # may have been carried back to it, alone.
        commit="de53fd7aedb1",
        breaks="Slices of quota expire by clocks that drift apart, or unused where 512ac999d275 mended that alone: "
        "containers below their CPU limit are throttled (F58).",
    ),
    KernelDefect(
        id="kernel-quota-slices",
        since=(4, 18),
        until=(5, 4),
        mended=(((4, 19), 84), ((5, 3), 9)),
        commit="de53fd7aedb1",
        breaks="Slices of quota expire unused: containers below their CPU limit are throttled (512ac999d275, F58).",
    ),
    MASKS_RESET,
    KernelDefect(
        id="kernel-burst-lost",
        since=(5, 14),
        until=(6, 10),
        mended=(((5, 15), 161), ((6, 1), 93), ((6, 6), 33), ((6, 8), 12), ((6, 9), 3)),
        commit="49217ea147df",
        breaks="A write to cpu.max makes cpu.max.burst a thousandth: the burst that was set is lost (K20).",
        remedy="write cpu.max.burst after each write to cpu.max",
    ),
    KernelDefect(
        id="kernel-groups-starve",
        since=(6, 13),
        until=(7, 1),
        mended=(((6, 18), 45),),
        commit="101f3498b4bd",
        breaks="A cgroup that runs on several CPUs is put before all others each time its share of one changes: on a "
        "CPU that it keeps busy, tasks outside of it (system services, kernel threads, the observer) may get no time "
        "for minutes (6d71a9c61604, K34).",
        remedy="leave CPUs that system tasks need out of busy cpusets (strict-cpu-reservation)",
    ),
)


_NUMBER = r"(\d{1,3})\.(\d{1,3})(?:\.(\d{1,4}))?"


def has_defect(release: str, defect: KernelDefect, build: str = "") -> bool:
    """Return whether a kernel has a defect; one of unknown version has none that is known.

    :param release: text of ``/proc/sys/kernel/osrelease``. :param build: of ``/proc/sys/kernel/version``.
    """
    match = re.search(rf"\bDebian {_NUMBER}", build, re.ASCII) or re.match(_NUMBER, release, re.ASCII)
    return match is not None and defect.has((int(match[1]), int(match[2])), int(match[3] or 0))


def kernel_findings(release: str, build: str = "") -> Iterator[Finding]:
    """Yield the defects of a kernel.

    :param release: text of ``/proc/sys/kernel/osrelease``. :param build: of ``/proc/sys/kernel/version``.
    """
    for defect in DEFECTS:
        if has_defect(release, defect, build):
            yield Finding(
                id=defect.id,
                outcome=Outcome.UNDECIDED,
                path="/proc/sys/kernel/osrelease",
                value=printable(release),
                breaks=defect.breaks,
                remedy=_remedy(defect),
            )


def _remedy(defect: KernelDefect) -> str:
    until = ".".join(map(str, defect.until))
    releases = [f"{major}.{minor}.{patch}" for (major, minor), patch in defect.mended]
    known = f"{', '.join(releases)}; " if releases else ""
    mended = f"a kernel with {defect.commit} ({known}distributions may carry it under a lower number)"
    return f"Use {until} or later, or {mended}{f'; else {defect.remedy}' if defect.remedy else ''}."
