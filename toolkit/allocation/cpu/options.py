"""CPU Manager policy options: names, maturity, values, incompatibilities, with the kubelet's own messages.

Source: Kubernetes documentation "Static policy options" and "Feature gates" (``docs/specification.md``);
``docs/simulate-format.md`` section "CPU manager".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.allocation.machine import Machine
from toolkit.model.go_text import GoError, parse_bool, quote

FULL_PCPUS_ONLY = "full-pcpus-only"
DISTRIBUTE_ACROSS_NUMA = "distribute-cpus-across-numa"
ALIGN_BY_SOCKET = "align-by-socket"
DISTRIBUTE_ACROSS_CORES = "distribute-cpus-across-cores"
STRICT_CPU_RESERVATION = "strict-cpu-reservation"
PREFER_ALIGN_BY_UNCORE = "prefer-align-cpus-by-uncorecache"

ALPHA = "Alpha"
BETA = "Beta"
STABLE = "Stable"
MATURITY = {
    DISTRIBUTE_ACROSS_CORES: ALPHA,
    ALIGN_BY_SOCKET: ALPHA,
    DISTRIBUTE_ACROSS_NUMA: BETA,
    FULL_PCPUS_ONLY: STABLE,
    STRICT_CPU_RESERVATION: STABLE,
    PREFER_ALIGN_BY_UNCORE: STABLE,
}
"""Maturity of each option in v1.36."""


class CpuPolicyError(Exception):
    """The kubelet does not start with this configuration; the message is the kubelet's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPolicyOptions:
    """The options of the static policy that are switched on."""

    full_pcpus_only: bool = False
    distribute_cpus_across_numa: bool = False
    align_by_socket: bool = False
    distribute_cpus_across_cores: bool = False
    strict_cpu_reservation: bool = False
    prefer_align_cpus_by_uncorecache: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the options that are on, as in the configuration."""
        return tuple(name for name in MATURITY if getattr(self, name.replace("-", "_")))


_INCOMPATIBLE = (
    (FULL_PCPUS_ONLY, DISTRIBUTE_ACROSS_CORES),
    (DISTRIBUTE_ACROSS_NUMA, DISTRIBUTE_ACROSS_CORES),
    (PREFER_ALIGN_BY_UNCORE, DISTRIBUTE_ACROSS_CORES),
    (PREFER_ALIGN_BY_UNCORE, DISTRIBUTE_ACROSS_NUMA),
)
"""Pairs in the order in which the kubelet checks them."""


def parse_options(values: Mapping[str, str], *, alpha: bool = False, beta: bool = True) -> CpuPolicyOptions:
    """Read ``cpuManagerPolicyOptions`` of the static policy.

    Several wrong options are reported in the order of their names; the kubelet picks one at random.

    :param alpha, beta: feature gates ``CPUManagerPolicyAlphaOptions`` and ``CPUManagerPolicyBetaOptions``.
    :raises CpuPolicyError: unknown or immature option, bad value, incompatible pair.
    """
    enabled = {STABLE: True, BETA: beta, ALPHA: alpha}
    on: dict[str, bool] = {}
    for name in sorted(values):
        maturity = MATURITY.get(name)
        if maturity is None:
            raise CpuPolicyError(f"unknown CPU Manager Policy option: {quote(name)}")
        # The gate is asked before the value is read: an option set to "false" needs it too.
        if not enabled[maturity]:
            raise CpuPolicyError(
                f"CPU Manager Policy {maturity}-level Options not enabled, but option {quote(name)} provided"
            )
        on[name] = _parse_bool(name, values[name])
    for first, second in _INCOMPATIBLE:
        if on.get(first) and on.get(second):
            raise CpuPolicyError(f"static policy options {first} and {second} can not be used at the same time")
    return CpuPolicyOptions(**{name.replace("-", "_"): value for name, value in on.items()})


def check_machine(options: CpuPolicyOptions, machine: Machine, topology_policy: str) -> None:
    """Check what depends on the machine and on the Topology Manager's policy.

    :raises CpuPolicyError: ``align-by-socket`` where it cannot work.
    """
    if not options.align_by_socket:
        return
    if topology_policy == "single-numa-node":
        raise CpuPolicyError(
            "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
        )
    if machine.num_sockets > machine.num_numa:
        raise CpuPolicyError(
            "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
        )


def check_none_policy(values: Mapping[str, str]) -> None:
    """Check that the ``none`` policy, which has no options, got none.

    :raises CpuPolicyError: it got some.
    """
    if values:
        listed = " ".join(f"{name}:{values[name]}" for name in sorted(values))
        raise CpuPolicyError(f"None policy: received unsupported options=map[{listed}]")


def _parse_bool(name: str, value: str) -> bool:
    try:
        return parse_bool(value)
    except GoError as error:
        raise CpuPolicyError(f"bad value for option {quote(name)}: {error}") from None
