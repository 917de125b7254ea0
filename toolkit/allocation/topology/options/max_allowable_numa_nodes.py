"""``max-allowable-numa-nodes``: a kubelet starts on machines with more than eight NUMA nodes.

Source: Kubernetes documentation "Control Topology Management Policies on a node", policy options; KEP-4622.
"""

from __future__ import annotations

from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.options.option import TopologyOption
from toolkit.kubernetes.go_text import atoi, quote

NAME = "max-allowable-numa-nodes"
DEFAULT = 8
"""More nodes make the number of masks explode: a policy other than ``none`` is refused beyond."""


def _refuse_value(value: int) -> str:
    return f"the minimum value of {quote(NAME)} should not be less than {DEFAULT}" if value < DEFAULT else ""


def _most_nodes(value: int) -> int:
    return value


def _idle(machine: Machine) -> str:
    return f"up to {DEFAULT} NUMA nodes need no option" if len(machine.nodes) <= DEFAULT else ""


OPTION = TopologyOption(
    name=NAME,
    read=atoi,
    misread="unable to convert policy option to integer",
    idle=_idle,
    refuse_value=_refuse_value,
    most_nodes=_most_nodes,
)
