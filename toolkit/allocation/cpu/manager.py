"""The CPU Manager: what the other managers see of it, the ``none`` policy, and how a configuration chooses a policy.

Source: ``docs/specification.md``; ``docs/simulate-format.md`` (start-up, stage ``cpu-manager``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from toolkit.allocation.cpu.assignment import CpuShortageError, take_cpus
from toolkit.allocation.cpu.options.option import CpuPolicyError
from toolkit.allocation.cpu.options.parse import check_machine, check_none_policy, parse_options
from toolkit.allocation.cpu.options.switched_on import CpuPolicyOptions
from toolkit.allocation.cpu.refusal import CpuAdmissionError
from toolkit.allocation.cpu.state import CpuState
from toolkit.allocation.cpu.static import StaticPolicy
from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.hint import Hints
from toolkit.kubernetes.pod import Container, Pod
from toolkit.kubernetes.releases import MODEL, Series
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet

__all__ = ["CpuAdmissionError", "CpuPolicy", "CpuPolicyError", "CpuState", "NonePolicy", "StaticPolicy", "make_policy"]


class CpuPolicy(Protocol):
    """What the Topology Manager and the admission need of a CPU Manager policy."""

    @property
    def name(self) -> str:
        """Name in the configuration and in the checkpoint."""

    @property
    def allocatable(self) -> CpuSet:
        """CPUs that containers may ever own."""

    def start(self, state: CpuState | None) -> CpuState:
        """Start over the checkpointed state, ``None`` if there is none; raises :class:`CpuPolicyError`."""

    def hints(self, state: CpuState, pod: Pod, container: Container) -> Hints:
        """Return the topology hints for a container."""

    def pod_hints(self, state: CpuState, pod: Pod) -> Hints:
        """Return the topology hints for a pod as a whole."""

    def allocate(self, state: CpuState, pod: Pod, container: Container, numa: int | None) -> CpuState:
        """Give a container its CPUs; ``numa`` is the stored hint's mask. Raises :class:`CpuAdmissionError`."""

    def allocate_pod(self, state: CpuState, pod: Pod, numa: int | None) -> CpuState:
        """Give a pod-level pod its CPUs and divide them. Raises :class:`CpuAdmissionError`."""

    def release(self, state: CpuState, pod_uid: str, container: str) -> CpuState:
        """Take a container's CPUs back."""

    def remove_stale(self, state: CpuState, active: Mapping[str, frozenset[str]]) -> CpuState:
        """Release every container that is not in ``active`` (pod uid -> container names)."""

    def isolation(self, state: CpuState, pod: Pod, container: Container) -> Isolation:
        """Return which tasks share the container's CPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NonePolicy:
    """The ``none`` policy: no container gets CPUs of its own, none is passed a CPU set."""

    name: str = "none"

    @property
    def allocatable(self) -> CpuSet:
        """Return nothing: no CPU is ever given away."""
        return CpuSet()

    def start(self, state: CpuState | None) -> CpuState:
        """Take over whatever there is."""
        return CpuState(self.name) if state is None else state.restarted()

    def hints(self, state: CpuState, pod: Pod, container: Container) -> Hints:
        """Return no preference."""
        return {}

    def pod_hints(self, state: CpuState, pod: Pod) -> Hints:
        """Return no preference."""
        return {}

    def allocate(self, state: CpuState, pod: Pod, container: Container, numa: int | None) -> CpuState:
        """Do nothing."""
        return state

    def allocate_pod(self, state: CpuState, pod: Pod, numa: int | None) -> CpuState:
        """Do nothing."""
        return state

    def release(self, state: CpuState, pod_uid: str, container: str) -> CpuState:
        """Do nothing."""
        return state

    def remove_stale(self, state: CpuState, active: Mapping[str, frozenset[str]]) -> CpuState:
        """Do nothing."""
        return state

    def isolation(self, state: CpuState, pod: Pod, container: Container) -> Isolation:
        """Everything shares the node."""
        return Isolation.HOST


def make_policy(
    name: str,
    option_values: Mapping[str, str],
    machine: Machine,
    *,
    reserved_milli: int = 0,
    reserved_list: CpuSet | None = None,
    topology_policy: str = "none",
    alpha_options: bool = False,
    beta_options: bool = True,
    pod_level_managers: bool = False,
    quirks: bool = False,
    series: Series = MODEL,
) -> StaticPolicy | NonePolicy:
    """Build the CPU Manager policy of a configuration.

    :param reserved_milli: CPU reservation in thousandths. :param reserved_list: ``reservedSystemCPUs``, if given.
    :param series: of the kubelet.
    :raises CpuPolicyError: with the kubelet's message of stage ``cpu-manager``.
    """
    if name == "none":
        try:
            check_none_policy(option_values)
        except CpuPolicyError as error:
            raise CpuPolicyError(f"new none policy error: {error}") from None
        return NonePolicy()
    if name != "static":
        raise CpuPolicyError(f'unknown policy: "{name}"')
    if reserved_milli <= 0:
        raise CpuPolicyError("[cpumanager] unable to determine reserved CPU resources for static policy")
    try:
        options = parse_options(option_values, alpha=alpha_options, beta=beta_options, series=series)
        check_machine(options, machine, topology_policy)
        reserved = reserved_cpus(machine, options, -(-reserved_milli // 1000), reserved_list, quirks=quirks)
    except CpuPolicyError as error:
        raise CpuPolicyError(f"new static policy error: {error}") from None
    return StaticPolicy(
        machine=machine,
        options=options,
        reserved=reserved,
        reserved_cores=machine.whole_cores(reserved),
        pod_level_managers=pod_level_managers,
        quirks=quirks,
    )


def reserved_cpus(
    machine: Machine, options: CpuPolicyOptions, count: int, listed: CpuSet | None, *, quirks: bool = False
) -> CpuSet:
    """Return the reserved CPUs: those listed, or ``count`` chosen with the same options as for containers.

    :raises CpuPolicyError: they cannot be had.
    """
    reserved = listed or CpuSet()
    if not reserved:
        try:
            reserved = take_cpus(machine, machine.cpus, count, options, quirks=quirks)
        except CpuShortageError:
            reserved = CpuSet()
    if len(reserved) != count:
        raise CpuPolicyError(
            f"[cpumanager] unable to reserve the required amount of CPUs (size of {reserved} did not equal {count})"
        )
    unknown = reserved - machine.cpus
    if unknown:
        raise CpuPolicyError(
            "[cpumanager] unable to build the reserved physical CPUs from the reserved set: "
            f"unknown CPU ID: {unknown.first()}"
        )
    return reserved
