"""How a configuration switches options of the static policy on, with the kubelet's messages.

Source: Kubernetes documentation "Static policy options" and "Feature gates" (``docs/specification.md``);
``docs/simulate-format.md`` section "CPU manager".
"""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.allocation.cpu.options.option import CpuPolicyError
from toolkit.allocation.cpu.options.registry import OPTIONS
from toolkit.allocation.cpu.options.switched_on import CpuPolicyOptions
from toolkit.allocation.machine import Machine
from toolkit.kubernetes.go_text import GoError, parse_bool, quote
from toolkit.kubernetes.releases import MODEL, Series, Stage
from toolkit.kubernetes.releases import OPTIONS as HISTORY


def parse_options(
    values: Mapping[str, str], *, alpha: bool = False, beta: bool = True, series: Series = MODEL
) -> CpuPolicyOptions:
    """Read ``cpuManagerPolicyOptions`` of the static policy.

    Several wrong options are reported in the order of their names; the kubelet picks one at random.

    :param alpha, beta: feature gates ``CPUManagerPolicyAlphaOptions`` and ``CPUManagerPolicyBetaOptions``.
    :param series: of the kubelet: which options there are, and how mature they are.
    :raises CpuPolicyError: unknown or immature option, bad value, incompatible pair.
    """
    enabled = {Stage.GA: True, Stage.BETA: beta, Stage.ALPHA: alpha}
    on = []
    for name in sorted(values):
        stage = HISTORY[name].of(series) if name in OPTIONS else None
        if stage is None:
            raise CpuPolicyError(f"unknown CPU Manager Policy option: {quote(name)}")
        # The gate is asked before the value is read: an option set to "false" needs it too.
        if not enabled[stage]:
            raise CpuPolicyError(
                f"CPU Manager Policy {stage.capitalize()}-level Options not enabled, but option {quote(name)} provided"
            )
        if _parse_bool(name, values[name]):
            on.append(name)
    options = CpuPolicyOptions.of(*on)
    for option in options.on:
        for other in option.conflicts:
            if other in options:
                raise CpuPolicyError(
                    f"static policy options {option.name} and {other} can not be used at the same time"
                )
    return options


def check_machine(options: CpuPolicyOptions, machine: Machine, topology_policy: str) -> None:
    """Check what depends on the machine and on the Topology Manager's policy.

    :raises CpuPolicyError: an option that cannot work there.
    """
    refusal = options.refuse_machine(machine, topology_policy)
    if refusal:
        raise CpuPolicyError(refusal)


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
