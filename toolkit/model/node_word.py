"""What a node says about its own containers, beside what is observed: runtime, state files, layers."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.claims import Claim
from toolkit.model.evidence import Runtime
from toolkit.model.evidence.following import Following, Gauges, GivingBack, Making
from toolkit.model.layers import LayerView
from toolkit.model.state_files import StateReading


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWord:
    """Read when a window ends; a part is unknown where no source states it.

    :param runtime: what made the containers. :param layers: each claim's CPUs by the words of each layer.
    :param following: how it was followed, where it was read while it works, not made by us.
    :param giving_back: who held CPUs that were promised away. :param making: containers that did not run yet.
    :param later: what a later reading knows that was not known in the window. :param gauges: the kubelet's own metrics.
    """

    runtime: Runtime | None = None
    state_files: tuple[StateReading, ...] = ()
    layers: tuple[LayerView, ...] = ()
    following: Following | None = None
    giving_back: tuple[GivingBack, ...] = ()
    making: tuple[Making, ...] = ()
    later: tuple[Claim, ...] = ()
    gauges: tuple[Gauges, ...] = ()


NOTHING = NodeWord()
