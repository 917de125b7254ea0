"""``distribute-cpus-across-numa``: a request that needs several NUMA nodes is spread evenly over them.

How the nodes are compared is in :mod:`toolkit.allocation.cpu.distributed`.
Source: Kubernetes documentation "Static policy options"; KEP-2902.
"""

from __future__ import annotations

from toolkit.allocation.cpu.distributed import take_distributed
from toolkit.allocation.cpu.options.option import Choice, CpuOption, Maturity


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


OPTION = CpuOption(
    name="distribute-cpus-across-numa",
    maturity=Maturity.BETA,
    conflicts=("distribute-cpus-across-cores",),
    choose=_choose,
)
