"""All that is found about a plan: what it breaks, what the kubelet does instead, and what options and machine add."""

from __future__ import annotations

from toolkit.model.isolation import Finding, IsolationFacts
from toolkit.model.plan import Plan
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.session.planning.cpu_roles import roles_of_kubelet, roles_of_plan
from toolkit.session.planning.isolation import findings
from toolkit.session.planning.kubelet_defects import kubelet_defects
from toolkit.session.planning.plan_findings import plan_findings
from toolkit.session.planning.planned import config_of


def examined(
    scenario: Scenario, topology: Topology, plan: Plan, facts: IsolationFacts | None, *, fresh: bool = True
) -> tuple[Finding, ...]:
    """Return the findings about a scenario's plan.

    :param fresh: whether the plan began with an empty node: else what a defect of the kubelet makes of it is not asked.
    :param facts: of the machine, held against the CPUs that the plan gives away; ``None``: only its topology is known.
    """
    config = config_of(scenario)
    found = plan_findings(plan, topology) + (kubelet_defects(scenario, topology, plan) if fresh else ())
    found += roles_of_kubelet(config, topology, "the kubelet's configuration")[1]
    if facts is not None and any(c.assigned for pod in plan.pods for c in pod.containers):
        found += findings(facts, roles_of_plan(plan))
    return found
