"""The claims that an observer watches, with what the kernel side knows them by; and the reports made of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from probes.options import MAX_LEVEL
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value

ALL_CPUS = CpuSet((1 << 1024) - 1)


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One of the first reports that a task ran outside its claim, while it may still be running.

    Times are nanoseconds since the window ``window`` was opened; ``ns`` is the time outside when it was reported.
    """

    claim: str
    tid: int
    tgid: int
    comm: str
    cpu: int
    first_at_ns: int
    reported_at_ns: int
    ns: int
    window: int = 0
    """Number of the observer's window."""


class Tracked(Protocol):
    """A cgroup that is tracked by its name. ``cgroup_id``: of the present one, or of the last that was seen."""

    @property
    def path(self) -> str:
        """The name."""

    cgroup_id: int
    legacy_ids: dict[str, int]
    events: int
    gone: bool
    checked_ns: int


@dataclass(slots=True)
class Subject:
    """A watched claim. ``ident`` is never used twice in a run, ``slot`` is."""

    claim: Claim
    cgroup_id: int
    slot: int
    ident: int
    cpus: CpuSet
    since_ns: int
    watched_ns: int = 0
    """When the claim was added; ``since_ns`` moves on when its cgroup is made anew."""
    epoch: int = 0
    """Mask changes that are complete."""
    changing: bool = False
    next_cpus: CpuSet = field(default_factory=CpuSet)
    """The set that a change under way leads to."""
    legacy_ids: dict[str, int] = field(default_factory=dict)
    """Numbers of its cgroup in the v1 hierarchies of ``PROMISING`` controllers, of those in which it has one."""
    events: int = 0
    """Events of its cgroup (made, deleted) that have been taken note of."""
    gone: bool = False
    """Whether there is no cgroup of its name at present."""
    reported: bool = False
    """Whether the kernel side reports what happens to its cgroup: the name is not too long for it."""
    checked_ns: int = 0
    """When its cgroup was last looked at and was the known one."""
    cause: str = "host"
    """What makes and deletes its cgroup at present."""
    made_ns: int = 0
    """When its cgroup was made anew last."""

    @property
    def name(self) -> str:
        """The claim's name."""
        return self.claim.name

    @property
    def now(self) -> Claim:
        """The claim with the CPUs that its tasks are held to at present."""
        return self.claim if self.claim.cpus is None else replace(self.claim, cpus=self.cpus)

    @property
    def cpuset_id(self) -> int | None:
        """Number of its cgroup in the v1 hierarchy of the cpuset controller, where it has one there."""
        return self.legacy_ids.get("cpuset")

    @property
    def path(self) -> str:
        """Its cgroup."""
        return self.claim.cgroup

    @property
    def owns(self) -> bool:
        """Whether its CPUs are its own, or its pod's."""
        return self.claim.cpus is not None and self.claim.isolation is not Isolation.HOST


@dataclass(slots=True)
class PodsRoot:
    """The cgroup that all pods are in, by its path; it may not exist yet, or be made anew."""

    path: str
    cgroup_id: int = 0
    """Of the present one, or of the last one that was seen; 0: none was."""
    gone: bool = True
    """Whether there is no cgroup of its name at present."""
    legacy_ids: dict[str, int] = field(default_factory=dict)
    """As of a claim's."""
    events: int = 0
    """Events of its cgroup that have been taken note of."""
    checked_ns: int = 0
    """When it was last looked at."""


def check_place(claim: Claim) -> None:
    """Refuse a claim about a cgroup that the ledger cannot distinguish from others.

    :raises InputError: the root, or a cgroup so deep that the programs, which look at a limited number of ancestors,
        would not find it: its tasks would be no claim's.
    """
    path = cgroupfs.relative(claim.cgroup)
    if path in ("", "."):
        raise InputError(f"claim {claim.name}", "the root cgroup", "a cgroup below it: every task would be in it")
    level = path.count("/") + 1
    if level > MAX_LEVEL:
        found = f"cgroup {claim.cgroup[:80]}… is {level} levels below the root"
        raise InputError(f"claim {claim.name}", found, f"at most {MAX_LEVEL}: the programs look no deeper")
