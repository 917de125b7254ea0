"""The options that are switched on, as one value, and how a configuration switches them on.

Source: Kubernetes documentation "Control Topology Management Policies on a node", policy options;
``docs/simulate-format.md`` section "Topology manager".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.allocation.admission import StartupError
from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.merge import MaskKey
from toolkit.allocation.topology.options.max_allowable_numa_nodes import DEFAULT
from toolkit.allocation.topology.options.option import TopologyOption
from toolkit.allocation.topology.options.registry import OPTIONS
from toolkit.kubernetes.feature_gates import TOPOLOGY_ALPHA_OPTIONS, TOPOLOGY_BETA_OPTIONS, FeatureGates
from toolkit.kubernetes.go_text import GoError, quote
from toolkit.kubernetes.releases import OPTIONS as HISTORY
from toolkit.kubernetes.releases import Stage
from toolkit.model.claims import Preference

STAGE = "topology-manager"


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """The options that are switched on, with their values."""

    on: tuple[tuple[TopologyOption, int], ...] = ()

    def refuse_machine(self, machine: Machine) -> str:
        """Return why the kubelet does not start on this machine, or nothing."""
        texts = (option.refuse_machine(machine) for option, _ in self.on if option.refuse_machine)
        refused = next((text for text in texts if text), "")
        most = max((option.most_nodes(value) for option, value in self.on if option.most_nodes), default=DEFAULT)
        if not refused and len(machine.nodes) > most:
            return f"unsupported on machines with more than {most} NUMA Nodes"
        return refused

    def order(self, machine: Machine, *, quirks: bool) -> MaskKey:
        """Return which of two masks with as many nodes is the better one: the lower id, unless an option says more."""
        for option, _ in self.on:
            if option.order is not None:
                return option.order(machine, quirks)
        return by_id

    def preferences(self) -> tuple[Preference, ...]:
        """Return what is done for a container where it can be done."""
        return tuple(option.preference for option, _ in self.on if option.preference is not None)


def by_id(mask: int) -> tuple[float, ...]:
    """Order masks by the ids of their nodes."""
    return (mask,)


def read_options(given: Mapping[str, str], gates: FeatureGates | None = None) -> TopologyOptions:
    """Read ``topologyManagerPolicyOptions``.

    :param gates: of the kubelet; ``None``: the model's as they are by default.
    :raises StartupError: with the kubelet's message.
    """
    on, gates = [], FeatureGates() if gates is None else gates
    enabled = {
        Stage.GA: True,
        Stage.BETA: gates[TOPOLOGY_BETA_OPTIONS],
        Stage.ALPHA: gates[TOPOLOGY_ALPHA_OPTIONS],
    }
    for name, text in sorted(given.items()):
        option = OPTIONS.get(name)
        stage = None if option is None else HISTORY[name].of(gates.series)
        if option is None or stage is None:
            raise StartupError(STAGE, f"unknown Topology Manager Policy option: {quote(name)}")
        if not enabled[stage]:
            level = f"Topology Manager Policy {stage.capitalize()}-level Options"
            raise StartupError(STAGE, f"{level} not enabled, but option {quote(name)} provided")
        try:
            value = option.read(text)
        except GoError as error:
            raise StartupError(STAGE, f"{option.misread} {quote(name)}: {error}") from None
        refused = option.refuse_value(value)
        if refused:
            raise StartupError(STAGE, refused)
        if value:
            on.append((option, int(value)))
    return TopologyOptions(tuple(on))
