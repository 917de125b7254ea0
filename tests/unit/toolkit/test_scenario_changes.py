"""What changes on a node beside its pods' arrival: pods that leave again, a kubelet that is started anew."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.harness.catalogue import machine as lab
from tests.unit.toolkit.scenario_builder import container, machine, pod, scenario
from toolkit.errors import InputError
from toolkit.model.verdict import Outcome
from toolkit.session.planning.admissions import admissions
from toolkit.session.planning.planned import plan_all, plan_scenario


def test_a_pod_that_leaves_has_its_cpus_for_a_while() -> None:
    """Two plans: without it, before and afterwards, and with it. A pod that changes weights is none of these."""
    both = (pod("web", container("c")), pod("db", container("c", "1")))
    work = plan_all(scenario(*both, leaves=("db",)), machine(2))

    assert work.visited is not None
    pools = [str(plan.pods[0].containers[0].cpus) for plan in (work.plan, work.visited)]
    assert pools == ["0-1", "0"]
    assert [one.name for one in work.visited.pods] == ["web", "db"]
    assert plan_scenario(work.scenario, machine(2)) == work.visited
    with pytest.raises(InputError, match="BestEffort; expected a Guaranteed pod"):
        plan_all(scenario(*both, leaves=("web",)), machine(2))
    with pytest.raises(InputError, match="leaves and departures"):
        plan_all(scenario(*both, leaves=("db",), departures=("web",)), machine(2))


TURNED_STRICT = {"cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}}


@pytest.mark.parametrize(
    ("settings", "refused", "outcome"),
    [
        ({}, "", Outcome.PASSED),
        ({}, "strictly reserved", Outcome.FAILED),
        (TURNED_STRICT, "strictly reserved", Outcome.PASSED),
        (TURNED_STRICT, "", Outcome.FAILED),
        (TURNED_STRICT, "policy", Outcome.FAILED),
    ],
)
def test_a_restart_is_compared(settings: dict[str, Any], refused: str, outcome: Outcome) -> None:
    """The kubelet starts over the state files, or does not and says why: anything else than stated fails."""
    work = plan_all(
        scenario(pod("db", container("c", "1")), kubelet_restart=settings, refused_restart=refused), machine(2)
    )

    verdicts = admissions(work.scenario, work)

    assert [v.outcome for v in verdicts if v.subject == "kubelet (restart)"] == [outcome]
    assert str(work.plan.pods[0].containers[0].cpus) == "1"


def test_a_pod_that_is_not_admitted_again_fails_the_restart() -> None:
    """Another topology policy lets the kubelet start, and refuses the pod that spans two nodes."""
    wide = scenario(pod("db", container("c", "=numa+1")), kubelet_restart={"topologyManagerPolicy": "single-numa-node"})
    work = plan_all(wide, lab("small"))

    verdict = next(v for v in admissions(wide, work) if v.subject == "kubelet (restart)")
    assert (verdict.outcome, "TopologyAffinityError" in verdict.reason) == (Outcome.FAILED, True)
