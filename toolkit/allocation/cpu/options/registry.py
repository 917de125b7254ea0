"""All options of the static policy. The order is that in which the kubelet looks for pairs that exclude each other."""

from __future__ import annotations

from toolkit.allocation.cpu.options import (
    align_by_socket,
    distribute_cpus_across_cores,
    distribute_cpus_across_numa,
    full_pcpus_only,
    prefer_align_cpus_by_uncorecache,
    strict_cpu_reservation,
)
from toolkit.allocation.cpu.options.option import CpuOption

OPTIONS: dict[str, CpuOption] = {
    option.name: option
    for option in (
        full_pcpus_only.OPTION,
        distribute_cpus_across_numa.OPTION,
        distribute_cpus_across_cores.OPTION,
        align_by_socket.OPTION,
        strict_cpu_reservation.OPTION,
        prefer_align_cpus_by_uncorecache.OPTION,
    )
}
"""Name in ``cpuManagerPolicyOptions`` -> option."""
