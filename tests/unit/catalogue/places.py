"""The machines on which the catalogue is run: an ordinary virtual machine, and those of the lab."""

from __future__ import annotations

from tests.lab.harness.catalogue import fitting, machine, scenarios
from tests.lab.harness.topology import BY_NAME
from tests.unit.toolkit.scenario_builder import machine as small_machine
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.session.planning.fitting import why_not

TWO_CPUS = "two CPUs"
"""What an ordinary virtual machine has, and most of the catalogue must fit."""
PLACES = (TWO_CPUS, *BY_NAME)


def placed(place: str) -> tuple[Topology, list[Scenario]]:
    """Return a machine with all scenarios that it can run."""
    if place == TWO_CPUS:
        two = small_machine(2)
        return two, [one for one in scenarios().values() if why_not(one, two) is None]
    return machine(place), [scenarios()[name] for name in fitting(place)]
