"""The options that are switched on, as one value: what the policy does where an option has its say.

Source: ``docs/specification.md``, "Static policy options"; ``docs/simulate-format.md`` section "CPU manager".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from toolkit.allocation.cpu.options.option import Choice, CpuOption
from toolkit.allocation.cpu.options.registry import OPTIONS
from toolkit.allocation.cpu.packed import PACKED, Steps
from toolkit.allocation.machine import Machine
from toolkit.kubernetes.releases import MODEL, Stage
from toolkit.kubernetes.releases import OPTIONS as HISTORY
from toolkit.model.claims import Alignment, Preference
from toolkit.model.cpuset import CpuSet

_BY_MATURITY = [Stage.ALPHA, Stage.BETA, Stage.GA]


@dataclass(frozen=True, repr=False)
class CpuPolicyOptions:
    """The options of the static policy that are switched on."""

    on: tuple[CpuOption, ...] = ()

    @classmethod
    def of(cls, *names: str) -> CpuPolicyOptions:
        """Switch on options by their names, whatever their gates and conflicts say."""
        return cls(tuple(option for option in OPTIONS.values() if option.name in names))

    def __repr__(self) -> str:
        return f"CpuPolicyOptions.of({', '.join(map(repr, self.names))})"

    def __contains__(self, name: str) -> bool:
        """Return whether the option of this name is on."""
        return any(option.name == name for option in self.on)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the options that are on, as in the configuration; the least mature ones first."""
        return tuple(o.name for o in sorted(self.on, key=lambda option: _BY_MATURITY.index(_maturity(option))))

    @cached_property
    def choosing(self) -> tuple[str, ...]:
        """Names of those that have a say in which CPUs a container gets."""
        chooses = {option.name for option in self.on if option.chooses}
        return tuple(name for name in self.names if name in chooses)

    @cached_property
    def steps(self) -> Steps:
        """The steps of the packed choice."""
        steps = PACKED
        for option in self.on:
            if option.steps is not None:
                steps = option.steps(steps)
        return steps

    def refuse_machine(self, machine: Machine, topology_policy: str) -> str:
        """Return why the kubelet does not start on this machine with this Topology Manager policy, or nothing."""
        return next(self._words(o.refuse_machine(machine, topology_policy) for o in self.on if o.refuse_machine), "")

    def refuse_request(self, machine: Machine, count: int, free: int | None = None) -> str:
        """Return why ``count`` CPUs cannot be had, or nothing.

        :param free: how many CPUs of wholly unreserved cores are free; ``None``: judge the number alone.
        """
        return next(self._words(o.refuse_request(machine, count, free) for o in self.on if o.refuse_request), "")

    @staticmethod
    def _words(texts: Iterator[str]) -> Iterator[str]:
        return (text for text in texts if text)

    def unit(self, machine: Machine) -> int:
        """Return how many CPUs are handed out together."""
        return max((option.unit(machine) for option in self.on if option.unit), default=1)

    def choose(self, choice: Choice) -> int:
        """Return the mask of the CPUs chosen.

        :raises CpuShortageError: there are not enough.
        """
        for option in self.on:
            if option.choose is not None:
                return option.choose(choice)
        return choice.take(choice.available, choice.count, foreign=choice.foreign)

    def near(self, machine: Machine, numa_nodes: tuple[int, ...]) -> CpuSet:
        """Return the CPUs that count as near the hint's nodes."""
        for option in self.on:
            if option.near is not None:
                return option.near(machine, numa_nodes)
        return machine.cpus_in_numa(numa_nodes)

    def sockets(self, machine: Machine, fewest_nodes: int) -> int:
        """Return on how many sockets a hint is preferred though it has more nodes than needed; 0: on none."""
        return max((option.sockets(machine, fewest_nodes) for option in self.on if option.sockets), default=0)

    def pool(self, online: CpuSet, reserved: CpuSet) -> CpuSet:
        """Return the shared pool of an empty node: reserved CPUs stay in it, unless an option takes them out."""
        for option in self.on:
            if option.pool is not None:
                return option.pool(online, reserved)
        return online

    def refuse_pool(self, reserved: CpuSet, pool: CpuSet) -> str:
        """Return why the kubelet does not start over a state file with this shared pool, or nothing."""
        for option in self.on:
            if option.refuse_pool is not None:
                return option.refuse_pool(reserved, pool)
        if reserved <= pool:
            return ""
        return f'not all reserved cpus: "{reserved}" are present in defaultCpuSet: "{pool}"'

    @property
    def widens_to_sockets(self) -> bool:
        """Whether a hint may be preferred that has more nodes than needed."""
        return any(option.sockets for option in self.on)

    def guarantees(self, *, budget: bool) -> tuple[Alignment, ...]:
        """Return what is guaranteed to a container. :param budget: its pod has a budget of its own."""
        made = [option.promise for option in self.on if option.promise is not None]
        found = [promise.in_budget if budget else promise.alignment for promise in made]
        return tuple(alignment for alignment in found if alignment is not None)

    def preferences(self) -> tuple[Preference, ...]:
        """Return what is done for a container where it can be done."""
        made = [option.promise.preference for option in self.on if option.promise is not None]
        return tuple(preference for preference in made if preference is not None)


NO_OPTIONS = CpuPolicyOptions()


def _maturity(option: CpuOption) -> Stage:
    """Return how mature it is in the model's release."""
    return HISTORY[option.name].of(MODEL) or Stage.ALPHA
