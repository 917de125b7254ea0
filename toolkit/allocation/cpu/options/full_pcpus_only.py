"""``full-pcpus-only``: a container gets whole physical cores, or is refused with ``SMTAlignmentError``.

Source: Kubernetes documentation "Static policy options"; KEP-2625; ``docs/simulate-format.md`` section "CPU manager".
"""

from __future__ import annotations

from toolkit.allocation.cpu.options.option import CpuOption, Promise
from toolkit.allocation.machine import Machine
from toolkit.model.claims import Alignment


def _unit(machine: Machine) -> int:
    return machine.cpus_per_core


def _refuse_request(machine: Machine, count: int, free: int | None) -> str:
    threads = machine.cpus_per_core
    if count % threads:
        return f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {threads}"
    if free is not None and count > free:
        return (
            "SMT Alignment Error: not enough free physical CPUs: "
            f"available physical CPUs = {free}, requested CPUs = {count}, CPUs per core = {threads}"
        )
    return ""


def _matters(machine: Machine) -> tuple[str, int]:
    return "threads in a core", max(mask.bit_count() for mask in machine.core_masks.values())


OPTION = CpuOption(
    name="full-pcpus-only",
    conflicts=("distribute-cpus-across-cores",),
    promise=Promise(alignment=Alignment.SMT, in_budget=Alignment.SMT_POD),
    matters=_matters,
    unit=_unit,
    refuse_request=_refuse_request,
)
