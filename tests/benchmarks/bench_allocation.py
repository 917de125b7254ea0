"""How long the CPU Manager's choice takes on a 256-CPU machine, beside the real Go code's reference numbers.

One ``allocate`` of the static policy with the state in memory, as the reference was measured: containers of 4 CPUs
until the machine (2 sockets x 4 NUMA nodes, SMT2, caches of 8 cores) is full, and containers of 48 CPUs. Then the hints
for a container, which is what an admission adds. The reference is a rough measurement of the Go code on another 2-core
machine: compare magnitudes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from tabulate import tabulate

from toolkit.allocation.cpu.manager import StaticPolicy, make_policy
from toolkit.allocation.machine import Machine, MachineCpu
from toolkit.kubernetes.pod import Container, Pod, Resources
from toolkit.kubernetes.quantity import Quantity

REFERENCE_MEDIAN_US = {
    (): 5100.0,
    ("full-pcpus-only",): 6400.0,
    ("distribute-cpus-across-numa",): 700.0,
    ("distribute-cpus-across-numa", "full-pcpus-only"): 720.0,
    ("align-by-socket",): 2100.0,
    ("distribute-cpus-across-cores",): 790.0,
    ("strict-cpu-reservation",): 1900.0,
    ("prefer-align-cpus-by-uncorecache",): 790.0,
    ("prefer-align-cpus-by-uncorecache", "full-pcpus-only"): 810.0,
}
"""Medians of the Go code for 4 CPUs; its minima are 440 to 610 us, requests of 48 CPUs take 1000 to 11000 us."""
ROUNDS = 7
RESERVED_CPUS = 4


def machine(sockets: int = 2, nodes: int = 4, cores: int = 16) -> Machine:
    """Build the reference machine; siblings are numbered after all first threads."""
    total = sockets * nodes * cores
    return Machine.build(
        (
            MachineCpu(
                cpu=core + thread * total,
                core=core,
                socket=core // (nodes * cores),
                numa=core // cores,
                uncore=core // 8,
            )
            for core in range(total)
            for thread in range(2)
        ),
        (),
    )


def pods(cpus: int, count: int) -> list[Pod]:
    """Build guaranteed pods with one container."""
    amounts = {"cpu": Quantity.of(cpus), "memory": Quantity.of(1 << 30)}
    containers = (Container(name="c", resources=Resources(requests=amounts, limits=amounts)),)
    return [Pod(uid=f"p{i}", name=f"p{i}", containers=containers) for i in range(count)]


def timed_us(call: Callable[[], object]) -> float:
    """Time one call in microseconds."""
    began = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - began) / 1000


def measure(policy: StaticPolicy, cpus: int) -> tuple[list[float], list[float]]:
    """Fill the machine several times; return the times of all allocations, and of the hints before each."""
    wanted = pods(cpus, (policy.machine.num_cpus - RESERVED_CPUS) // cpus)
    allocations, hints = [], []
    for _ in range(ROUNDS):
        state = policy.start(None)
        for pod in wanted:
            container = pod.containers[0]
            hints.append(timed_us(lambda: policy.hints(state, pod, container)))  # noqa: B023 - called at once
            allocations.append(timed_us(lambda: policy.allocate(state, pod, container, None)))  # noqa: B023
            state = policy.allocate(state, pod, container, None)
        assert len(state.entries) == len(wanted)
    return allocations, hints


def main() -> int:
    """Print a table, and which medians are not below their reference."""
    on = machine()
    rows, slower = [], []
    for options, reference in REFERENCE_MEDIAN_US.items():
        policy = make_policy(
            "static", dict.fromkeys(options, "true"), on, reserved_milli=1000 * RESERVED_CPUS, alpha_options=True
        )
        assert isinstance(policy, StaticPolicy)
        four, hints = measure(policy, 4)
        many, _ = measure(policy, 48)
        median = statistics.median(four)
        if median >= reference:
            slower.append(options)
        rows.append(
            (
                ", ".join(options) or "(no options)",
                median,
                min(four),
                reference,
                reference / median,
                statistics.median(many),
                min(many),
                statistics.median(hints),
            )
        )
    headers = (
        "options",
        "4 CPUs median us",
        "min us",
        "Go median us",
        "ratio",
        "48 CPUs median us",
        "min us",
        "hints us",
    )
    print(tabulate(rows, headers=headers, floatfmt=".1f"))
    if slower:
        print("slower than the reference: " + "; ".join(", ".join(options) or "(no options)" for options in slower))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
