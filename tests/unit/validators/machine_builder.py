"""A machine with 8 CPUs for the rules about placement: 2 sockets = 2 nodes, 4 cores of 2 threads, an L3 each node."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.validators.evidence_builder import cpus, db_files, evidence, on_every_cpu, use
from toolkit.model.evidence import Evidence

TOPOLOGY: dict[str, object] = {
    "core_cpus": ["0,4", "1,5", "2,6", "3,7"],
    "l3_cpus": ["0-1,4-5", "2-3,6-7"],
    "socket_cpus": ["0-1,4-5", "2-3,6-7"],
    "numa_nodes": {"0": "0-1,4-5", "1": "2-3,6-7"},
}


def machine(granted: str = "2,6", virtualization: str = "none", **changes: object) -> Evidence:
    """Healthy evidence of the machine, with ``db`` alone on ``granted``."""
    found = evidence(
        cpu_use=tuple(use("db", cpu) for cpu in cpus(granted)),
        files_before=(db_files(cpus_effective=cpus(granted)),),
        files_after=(db_files(cpus_effective=cpus(granted)),),
        thread_masks=(),
    )
    environment = replace(found.environment, cpus_online=cpus("0-7"), topology=TOPOLOGY, virtualization=virtualization)
    coverage = replace(found.coverage, cpus_seen=cpus("0-7"), cpus_online=cpus("0-7"))
    return replace(found, environment=environment, coverage=coverage, **on_every_cpu(changes))


def with_topology(found: Evidence, **changes: object) -> Evidence:
    """Change what is known of the machine."""
    topology = {**found.environment.topology, **changes}
    return replace(found, environment=replace(found.environment, topology=topology))
