"""``align-by-socket``: CPUs of one socket are as good as CPUs of one NUMA node.

A hint's node stands for its whole socket, and a hint within as few sockets as the fewest nodes need is preferred.
Source: Kubernetes documentation "Static policy options"; KEP-3327; ``docs/simulate-format.md`` section "CPU manager".
"""

from __future__ import annotations

from toolkit.allocation.cpu.options.option import CpuOption, Promise
from toolkit.allocation.machine import Machine
from toolkit.model.claims import Preference
from toolkit.model.cpuset import CpuSet


def _refuse_machine(machine: Machine, topology_policy: str) -> str:
    if topology_policy == "single-numa-node":
        return "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
    if machine.num_sockets > machine.num_numa:
        return "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
    return ""


def _near(machine: Machine, numa_nodes: tuple[int, ...]) -> CpuSet:
    mask = 0
    for socket in machine.sockets_of_numa(numa_nodes):
        mask |= machine.socket_masks[socket]
    return CpuSet(mask)


def _sockets(machine: Machine, fewest_nodes: int) -> int:
    # 0 is never reached by a combination of nodes: then no socket makes a hint preferred.
    per_socket = machine.num_numa // machine.num_sockets
    return -(-fewest_nodes // per_socket) if per_socket else 0


def _matters(machine: Machine) -> tuple[str, int]:
    return "sockets", len(machine.socket_masks)


OPTION = CpuOption(
    name="align-by-socket",
    promise=Promise(preference=Preference.SOCKET),
    matters=_matters,
    refuse_machine=_refuse_machine,
    near=_near,
    sockets=_sockets,
)
