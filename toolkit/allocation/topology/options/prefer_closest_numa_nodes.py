"""``prefer-closest-numa-nodes``: of masks with as many nodes the one whose nodes are closest together is the best.

Source: Kubernetes documentation "Control Topology Management Policies on a node", policy options; KEP-3545.
"""

from __future__ import annotations

from toolkit.allocation.admission import KubeletPanic
from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.merge import MaskKey
from toolkit.allocation.topology.options.option import TopologyOption
from toolkit.kubernetes.go_text import parse_bool
from toolkit.model.claims import Preference

FARTHEST = 255
"""The kernel's distance of nodes that cannot reach each other."""


def _refuse_machine(machine: Machine) -> str:
    if any(node.distances is None for node in machine.nodes):
        return "cannot discover NUMA topology: error getting NUMA distances from cadvisor"
    return ""


def _order(machine: Machine, quirks: bool) -> MaskKey:
    """Order masks by the average distance of their nodes, then by id."""
    position = {node.id: i for i, node in enumerate(machine.nodes)}
    # A row shorter than the list of nodes is a broken table; the missing distances are the farthest.
    rows = {
        node.id: (*(node.distances or ()), *(FARTHEST,) * (len(machine.nodes) - len(node.distances or ())))
        for node in machine.nodes
    }

    def key(mask: int) -> tuple[float, ...]:
        nodes = [i for i in range(mask.bit_length()) if mask >> i & 1]
        total = 0
        for node in nodes:
            row = rows.get(node, ())
            # The kubelet takes a node's id for its position in the row, and crashes beyond the row's end; ids differ
            # from positions where they have gaps.
            in_row = nodes[-1] < len(row)
            if not in_row and quirks:
                index = next(i for i in nodes if i >= len(row))
                raise KubeletPanic(f"runtime error: index out of range [{index}] with length {len(row)}")
            total += sum(row[other if in_row else position[other]] for other in nodes)
        return (total / len(nodes) ** 2, mask)

    return key


def _idle(machine: Machine) -> str:
    """Return a finding where all groups of as many nodes are equally close."""
    rows = [node.distances or () for node in machine.nodes]
    apart = {distance for i, row in enumerate(rows) for j, distance in enumerate(row) if i != j}
    own = {row[i] for i, row in enumerate(rows) if i < len(row)}
    if len(own) <= 1 and (len(rows) < 3 or len(apart) == 1):
        return "all groups of as many NUMA nodes are equally close"
    return ""


OPTION = TopologyOption(
    name="prefer-closest-numa-nodes",
    read=parse_bool,
    misread="bad value for option",
    idle=_idle,
    refuse_machine=_refuse_machine,
    order=_order,
    preference=Preference.CLOSEST,
)
