"""Containers of the catalogue do something: of one that sleeps there is no evidence, and its run is undecided."""

from __future__ import annotations

import pytest

from tests.lab.harness.catalogue import scenarios

CONTAINERS = [
    (name, f"{pod['metadata']['name']}/{container['name']}")
    for name, scenario in scenarios().items()
    for pod in scenario.pods
    if pod["metadata"]["name"] not in scenario.rejected_pods
    for kind in ("initContainers", "containers")
    for container in pod["spec"].get(kind, ())
]


@pytest.mark.parametrize(("name", "container"), CONTAINERS)
def test_each_container_has_a_load(name: str, container: str) -> None:
    """Whoever is admitted is judged."""
    assert scenarios()[name].workloads.get(container)
