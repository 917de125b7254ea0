"""``strict-cpu-reservation``: nothing runs on reserved CPUs, because the shared pool does not have them.

Source: Kubernetes documentation "Static policy options"; KEP-4540.
"""

from __future__ import annotations

from toolkit.allocation.cpu.options.option import CpuOption
from toolkit.model.cpuset import CpuSet


def _pool(online: CpuSet, reserved: CpuSet) -> CpuSet:
    return online - reserved


def _refuse_pool(reserved: CpuSet, pool: CpuSet) -> str:
    here = reserved & pool
    return f'some of strictly reserved cpus: "{here}" are present in defaultCpuSet: "{pool}"' if here else ""


OPTION = CpuOption(name="strict-cpu-reservation", pool=_pool, refuse_pool=_refuse_pool)
