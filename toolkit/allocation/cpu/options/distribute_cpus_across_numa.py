"""``distribute-cpus-across-numa``: a request that needs several NUMA nodes is spread evenly over them.

How the nodes are compared is in :mod:`toolkit.allocation.cpu.distributed`.
Source: Kubernetes documentation "Static policy options"; KEP-2902.
"""

from __future__ import annotations

from toolkit.allocation.cpu.distributed import take_distributed
from toolkit.allocation.cpu.options.option import Choice, CpuOption, Promise
from toolkit.allocation.machine import Machine
from toolkit.model.claims import Alignment


def _choose(choice: Choice) -> int:
    return take_distributed(
        choice.machine,
        choice.available,
        choice.count,
        take=choice.take,
        group_size=choice.unit,
        foreign=choice.foreign,
        quirks=choice.quirks,
    )


def _matters(machine: Machine) -> tuple[str, int]:
    return "NUMA nodes", len(machine.numa_masks)


OPTION = CpuOption(
    name="distribute-cpus-across-numa",
    conflicts=("distribute-cpus-across-cores",),
    promise=Promise(alignment=Alignment.NUMA_EVEN),
    matters=_matters,
    choose=_choose,
)
