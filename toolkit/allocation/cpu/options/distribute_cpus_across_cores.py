"""``distribute-cpus-across-cores``: a request is spread over as many physical cores as it can.

The kubelet takes single CPUs in ascending order within a socket instead of whole cores; where siblings are numbered
side by side that is no spread at all, and it is reproduced as it is.
Source: Kubernetes documentation "Static policy options"; KEP-4176.
"""

from __future__ import annotations

from toolkit.allocation.cpu.options.option import CpuOption, Promise
from toolkit.allocation.cpu.packed import Steps, Walk, take_cores, take_single
from toolkit.allocation.machine import Machine
from toolkit.model.claims import Preference


def _take_ascending(walk: Walk) -> None:
    """Take single CPUs, ascending within a socket."""
    before = walk.free
    walk.take_lowest(walk.groups.sockets(before), before)


def _steps(steps: Steps) -> Steps:
    return (*(step for step in steps if step not in (take_cores, take_single)), _take_ascending)


def _matters(machine: Machine) -> tuple[str, int]:
    return "threads in a core", max(mask.bit_count() for mask in machine.core_masks.values())


OPTION = CpuOption(
    name="distribute-cpus-across-cores",
    promise=Promise(preference=Preference.CORES),
    matters=_matters,
    steps=_steps,
)
