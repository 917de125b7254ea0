"""What an option of the Topology Manager is: its name, how its value is read, and what it changes of the manager.

Each field from ``refuse_machine`` on is one place that an option may change; ``None`` leaves it as it is. An option is
a module of this package that holds one :class:`TopologyOption` by the name ``OPTION``; the line in
:mod:`toolkit.allocation.topology.options.registry` makes it known. How mature each is in which release is a row of
:mod:`toolkit.kubernetes.releases`.
Source: Kubernetes documentation "Control Topology Management Policies on a node", policy options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.merge import MaskKey
from toolkit.model.claims import Preference


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyOption:
    """One option. A switch that is on has the value 1.

    :param name: as in ``topologyManagerPolicyOptions``. :param read: returns a text's value; raises
        :class:`toolkit.kubernetes.go_text.GoError`.
    :param misread: how the kubelet's message on an unreadable value begins.
    :param idle: takes the machine; returns why the option changes nothing there, or nothing.
    :param refuse_value: returns the message with which a value is refused, or nothing.
    :param refuse_machine: returns the message with which the kubelet does not start on the machine, or nothing.
    :param most_nodes: takes the value; returns on how many NUMA nodes a kubelet starts.
    :param order: takes the machine and whether defects are reproduced; returns which of two masks with as many nodes is
        the better one. :param preference: what is done for a container where it can be done, and reported where not.
    """

    name: str
    read: Callable[[str], int]
    misread: str
    idle: Callable[[Machine], str]
    refuse_value: Callable[[int], str] = lambda _value: ""
    refuse_machine: Callable[[Machine], str] | None = None
    most_nodes: Callable[[int], int] | None = None
    order: Callable[[Machine, bool], MaskKey] | None = None
    preference: Preference | None = None
