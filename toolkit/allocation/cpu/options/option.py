"""What an option of the static policy is: its name, how mature it is, and what it changes of the policy.

Each field from ``refuse_machine`` on is one place of the policy that an option may change; ``None`` leaves it as it is.
An option is a module of this package that holds one :class:`CpuOption` by the name ``OPTION``; the line in
:mod:`toolkit.allocation.cpu.options.registry` makes it known, and a row of :mod:`toolkit.kubernetes.releases` says how
mature it is in which release.
Source: Kubernetes documentation "Static policy options" and "Feature gates" (``docs/specification.md``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from toolkit.allocation.cpu.packed import Steps
from toolkit.allocation.machine import Machine
from toolkit.model.claims import Alignment, Preference
from toolkit.model.cpuset import CpuSet


class CpuPolicyError(Exception):
    """The kubelet does not start with this configuration; the message is the kubelet's."""


class Take(Protocol):
    """Chooses CPUs out of a mask."""

    def __call__(self, available: int, count: int, *, foreign: int = 0) -> int:
        """Return ``count`` bits of ``available``; raises :class:`toolkit.allocation.cpu.packed.CpuShortageError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One choice of CPUs, as an option that makes it in its own way sees it.

    :param available, foreign: masks of free CPUs, and of CPUs that no whole unit may bring along.
    :param unit: CPUs are handed out in groups of this size. :param take: the packed choice.
    """

    machine: Machine
    available: int
    count: int
    foreign: int
    unit: int
    take: Take
    quirks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What an option promises about the CPUs of a container, whichever were chosen.

    :param alignment: what is guaranteed to a container with CPUs of its own.
    :param in_budget: what is guaranteed to a container of a pod with a budget of its own; ``None``: nothing.
    :param preference: what is done where it can be done, and reported where it could not.
    """

    alignment: Alignment | None = None
    in_budget: Alignment | None = None
    preference: Preference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOption:
    """One option of the static policy.

    :param name: as in ``cpuManagerPolicyOptions``.
    :param conflicts: names of options that it cannot go with. Of two options the one that the kubelet's message names
        first says so.
    :param promise: what its user may count on; ``None``: nothing that the machine's topology could show.
    :param matters: takes the machine; returns of what it must have several, if the option is to change anything, and
        how many it has.
    :param refuse_machine: takes the machine and the Topology Manager's policy; returns the message with which the
        kubelet does not start, or nothing.
    :param unit: how many CPUs are handed out together. :param refuse_request: takes the machine, the number of CPUs and
        (``None``: it does not matter now) how many CPUs of wholly unreserved cores are free; returns the message of
        ``SMTAlignmentError``, or nothing.
    :param steps: changes the steps of the packed choice. :param choose: replaces the packed choice.
    :param near: takes the machine and NUMA nodes of a hint; returns the CPUs that count as near.
    :param sockets: takes the machine and the fewest nodes that could do; returns the number of sockets on which a hint
        is preferred though it has more nodes.
    :param pool: takes the online and the reserved CPUs; returns the shared pool of an empty node.
    :param refuse_pool: takes the reserved CPUs and the shared pool of a state file; returns why the kubelet does not
        start over it, or nothing.
    """

    name: str
    conflicts: tuple[str, ...] = ()
    promise: Promise | None = None
    matters: Callable[[Machine], tuple[str, int]] | None = None
    refuse_machine: Callable[[Machine, str], str] | None = None
    unit: Callable[[Machine], int] | None = None
    refuse_request: Callable[[Machine, int, int | None], str] | None = None
    steps: Callable[[Steps], Steps] | None = None
    choose: Callable[[Choice], int] | None = None
    near: Callable[[Machine, tuple[int, ...]], CpuSet] | None = None
    sockets: Callable[[Machine, int], int] | None = None
    pool: Callable[[CpuSet, CpuSet], CpuSet] | None = None
    refuse_pool: Callable[[CpuSet, CpuSet], str] | None = None

    @property
    def chooses(self) -> bool:
        """Whether it has a say in which CPUs a container gets."""
        return any(hook is not None for hook in (self.unit, self.steps, self.choose, self.near))

    @property
    def only_hints(self) -> bool:
        """Whether all that it changes is what hints say and mean: without a hint it has no effect."""
        others = (self.unit, self.refuse_request, self.steps, self.choose, self.pool, self.refuse_pool)
        return self.near is not None and all(hook is None for hook in others)
