"""What a fault is: data that describes it, and the few functions that make it. Each fault's module makes one.

``prepare`` is pure: it reads the host and returns the changes that would make the fault.
:mod:`toolkit.faults.planting` writes these into a journal, makes them, and takes them back.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum

from toolkit.apply.change import HostChange
from toolkit.apply.journal import Journal
from toolkit.faults.injection import Host, Injection
from toolkit.model.claims import ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import WorkloadKind
from toolkit.model.scenario import NegativeControl, Scenario
from toolkit.model.serde import stage_value

AT_ONCE_S = 0.3
"""How long a fault is watched that control files, masks or state files show: they are read when a window opens and
when it closes, so any window shows it. As long again as the longest pause between two scans of masks (200 ms)."""
WATCH_S = 1.0
"""How long every other fault is watched: a hundred periods of the sampler, and time until its task gets a CPU."""

Alternatives = tuple[tuple[HostChange, ...], ...]
"""The changes that make a fault; several alternatives only where the host must be asked by trying."""


class Scope(StrEnum):
    """What a fault changes."""

    CGROUP = "cgroup"
    """A cgroup and its tasks: free in sandboxes of our own, with consent elsewhere."""
    HOST = "host"
    """The whole machine: only with consent."""
    FILE = "file"
    """A state file of a kubelet that is named: only with consent."""
    RUN = "run"
    """What one run of a scenario plans, promises or leaves undone: nothing that exists outside of it."""


class When(StrEnum):
    """The stage of a scenario's broken run at which a fault acts. The run asks the fault, not for its name."""

    PROMISE = "promise"
    """The node is planned anew by ``vary``, and what it then promises is judged."""
    NODE = "node"
    """The node is set up by ``vary``; the promises stay the scenario's."""
    CLAIMS = "claims"
    """Before the window opens, ``promise`` makes the claims stricter. What the scenario changes happens as always."""
    SANDBOX = "sandbox"
    """The sandbox stands: ``prepare``'s changes are made, and taken back after the verdicts."""
    CANARIES = "canaries"
    """The canaries are started: the one that should keep its claim does not."""
    CHANGE = "change"
    """The window is open: what the scenario changes is announced for the target, and not done to it."""
    STATE_FILES = "state-files"
    """The kubelet's state files are written down: ``rewrite`` spoils the text of ``cpu_manager_state``."""


class Masks(StrEnum):
    """Whose affinities are written down first, because the change resets some (kernels before 6.2, K11) or all."""

    NONE = "none"
    TARGETS = "targets"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A container that a negative control is aimed at. ``None`` and the empty set of ``cpus``: it has all.

    :param cgroup: where it stands; empty while there is only a plan.
    """

    claim: str
    cgroup: str = ""
    cpus: CpuSet | None
    mems: CpuSet | None
    online: CpuSet
    memory_nodes: CpuSet
    nodes: tuple[CpuSet, ...] = ()
    """The CPUs of each NUMA node."""

    @property
    def far_cpus(self) -> CpuSet:
        """CPUs online on NUMA nodes that have none of its own."""
        own = self.cpus or self.online
        return CpuSet.union(node for node in self.nodes if not node & own) & self.online


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What ``act`` works with. :param run: the journal that names the changes. :param children: receives ours."""

    host: Host
    injection: Injection
    run: Journal
    changes: tuple[HostChange, ...]
    children: list[subprocess.Popen[bytes]]


def _as_it_is(_control: NegativeControl, scenario: Scenario) -> Scenario:
    return scenario


def _as_promised(_control: NegativeControl, claims: ClaimSet) -> ClaimSet:
    return claims


def _as_written(text: str) -> str:
    return text


def _never_idle(_target: Target) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A scenario file's word for this fault (``fault: widen-cpuset``): the fault with some of its parameters fixed.

    :param aim: what is planted for a control, where ``when`` is ``SANDBOX``.
    :param idle: why the deed would change nothing for a target; ``None`` if it does.
    :param load: what the target runs besides, so that what the fault allows is made use of.
    :param watch_s: how long it is watched, at most. What makes use of it is waited for besides (``load``).
    :param vary: see ``When.PROMISE`` and ``When.NODE``. :param promise: see ``When.CLAIMS``.
    :param rewrite: see ``When.STATE_FILES``.
    """

    word: str
    when: When
    aim: Callable[[NegativeControl, Target], Injection] | None = None
    idle: Callable[[Target], str | None] = _never_idle
    load: WorkloadKind | None = None
    watch_s: float = WATCH_S
    vary: Callable[[NegativeControl, Scenario], Scenario] = _as_it_is
    promise: Callable[[NegativeControl, ClaimSet], ClaimSet] = _as_promised
    rewrite: Callable[[str], str] = _as_written


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What users read about a fault, also as JSON.

    :param changes: what is changed, in the kernel's words. :param field: failures of docs/failures.md that it makes.
    :param rules: rules that must say ``failed`` because of it (``undecided`` for ``undecides``).
    """

    id: str
    scope: Scope
    title: str
    changes: str
    field: tuple[str, ...]
    rules: tuple[str, ...]
    undecides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Description):
    """One fault.

    :param prepare: the changes that make it; ``None`` where nothing is planted. :param act: what else is done once
        these are made; returns the process that it is about, 0 for none.
    :param by_trying: only trying shows which of the alternatives the host allows.
    :param injectable: ``pinproof inject`` offers it.
    :param aims_at: which container it is about: one with CPUs of its own, or one of the shared pool.
    :param about_a_cpu: it takes a CPU; the exclusive one where none is given.
    :param noise_budget_ns_per_s: what must be promised so that it breaks a promise.
    :param load: what the target must run to make use of it.
    :param consequences: rules that may rightly say ``failed`` besides; ``None``: not all are known, so it is not
        planted among other changes (churn).
    :param words: what scenarios call it.
    """

    prepare: Callable[[Host, Injection], Alternatives] | None = None
    act: Callable[[Deed], int] | None = None
    keeps: Masks = Masks.NONE
    by_trying: bool = False
    injectable: bool = True
    aims_at: Isolation = Isolation.CONTAINER
    about_a_cpu: bool = False
    noise_budget_ns_per_s: int | None = None
    load: WorkloadKind | None = None
    consequences: tuple[str, ...] | None = None
    words: tuple[Word, ...] = ()

    @property
    def description(self) -> Description:
        """What users read."""
        return Description(**{one.name: getattr(self, one.name) for one in fields(Description)})
