"""No scenario asks for more than its node has room for, on any machine that it fits.

A kubelet's last admit handler, the predicate, would refuse such a pod, and what the managers had decided about it would
never run. Only a scenario that states this refusal may be decided otherwise by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.catalogue.flips import decided
from tests.unit.catalogue.places import PLACES, TWO_CPUS, placed
from toolkit.allocation.admission import OUT_OF
from toolkit.faults.fault import When
from toolkit.faults.registry import word_of
from toolkit.kubernetes.quantity import Quantity
from toolkit.model.plan import Plan
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome
from toolkit.session.planning.admissions import admissions
from toolkit.session.planning.fitting import unmet, unstartable
from toolkit.session.planning.planned import plan_all


def variants(scenario: Scenario, topology: Topology) -> Iterator[tuple[str, Scenario]]:
    """Yield a scenario, and what each of its controls that fit the machine makes of it before a node is set up."""
    yield scenario.name, scenario
    for control in scenario.negative_controls:
        word = word_of(control)
        if word.when in (When.PROMISE, When.NODE) and unmet(control.requires, topology) is None:
            varied = word.vary(control, scenario)
            if unstartable(varied, topology) is None:
                yield f"{scenario.name}: {control.fault} {control.subject or control.target}", varied


def states_it(scenario: Scenario) -> bool:
    """Whether a scenario is about a pod that finds too little room."""
    return any(reason.startswith(OUT_OF) for reason in scenario.rejected_pods.values())


@pytest.mark.parametrize("place", PLACES)
def test_what_is_admitted_is_what_the_scenario_states(place: str) -> None:
    """As a kubelet decides it, its last admit handler included; each is planned so."""
    topology, fit = placed(place)
    wrong = [
        f"{one.name}, {verdict.subject}: {verdict.reason}"
        for one in fit
        for verdict in admissions(one, plan_all(one, topology))
        if verdict.outcome is not Outcome.PASSED
    ]

    assert fit
    assert [one.name for one in fit if not one.predicate] == []
    assert wrong == []


@pytest.mark.parametrize("place", PLACES)
def test_what_is_decided_is_decided_by_the_managers(place: str) -> None:
    """The predicate refuses no pod, neither in the scenario nor on the other node of a control."""
    topology, fit = placed(place)
    changed = [
        name
        for one in fit
        for name, varied in variants(one, topology)
        if not states_it(varied) and decided(varied, topology) != decided(replace(varied, predicate=False), topology)
    ]

    assert changed == []


def requested_milli(plan: Plan) -> int:
    """Return the CPU time that the admitted pods of a plan ask for."""
    return sum(pod.cpu_request_milli for pod in plan.pods if pod.admitted)


@pytest.mark.parametrize("place", PLACES)
def test_all_requests_fit_what_is_not_reserved(place: str) -> None:
    """Counted here, from the settings: CPUs that are listed as reserved count whole, an amount for what it is."""
    topology, fit = placed(place)
    online = 1000 * len(topology.kubelet.cpus)
    over = []
    for one in fit:
        listed = one.kubelet.get("reservedSystemCPUs")
        amounts = [one.kubelet.get(part, {}).get("cpu", "0") for part in ("kubeReserved", "systemReserved")]
        reserved = 1000 if listed == "0" else sum(Quantity.parse(str(amount), "cpu").milli for amount in amounts)
        assert listed in (None, "0"), one.name
        asked = max(requested_milli(plan) for plan in plan_all(one, topology).every_plan)
        if asked > online - reserved:
            over.append((one.name, asked, online - reserved))

    assert over == []


def test_two_cpus_are_enough_for_most_of_it() -> None:
    """None of these may be lost to a scenario's appetite: so many fit before there was a predicate."""
    _, fit = placed(TWO_CPUS)

    assert len(fit) >= 73
