"""Pods of a scenario come and leave again while one window is open: the shared pool shrinks, and grows again.

Announced before each write: what shares CPUs leaves them before their owner starts, and gets them back once the owner
is gone.
"""

from __future__ import annotations

from dataclasses import replace

from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.model.claims import ClaimSet
from toolkit.model.plan import Plan
from toolkit.model.scenario import Scenario
from toolkit.session.engine.observe import Observation
from toolkit.session.planning.from_plan import claim_name, claim_set, running, sandbox_request
from toolkit.session.planning.tree import pod_path

STAY_S = 1.0
"""How long visitors stay, beside what starting and ending them takes."""


def carry_out(
    live: LiveSandbox,
    opened: Observation,
    claims: ClaimSet,
    scenario: Scenario,
    plans: tuple[Plan, Plan],
    ignored: str = "",
) -> None:
    """Let the visitors come, stay and leave. :param plans: without and with them. :param claims: promised now.

    Their containers have claims, their pods' cgroups none: these are empty before and gone after it.

    :param ignored: a claim whose changes of CPUs are announced, but not written.
    """
    before, with_visitors = plans
    names = frozenset(claim_name(pod, one) for pod, one in running(with_visitors) if pod.name in scenario.leaves)
    request = sandbox_request(with_visitors, scenario, names)
    paths = [pod_path(pod) for pod in with_visitors.pods if pod.admitted and pod.name in scenario.leaves]
    _follow(live, opened, claims, with_visitors, ignored)
    for parent in request.parents:
        if parent.path in paths:
            live.add_parent(parent)
    for container in request.containers:
        live.create(container)
    for claim in claim_set(with_visitors, scenario, live.value, names).claims:
        if claim.name in names:
            visitor = replace(claim, demand_cpus=None)
            opened.observer.add_claim(visitor)
            opened.promise(visitor)
    opened.wait(STAY_S)
    for name in sorted(names):
        with opened.observer.ending(name):
            live.stop(name)
        live.remove(name)
    for path in paths:
        live.remove_parent(path)
    _follow(live, opened, claims, before, ignored)


def _follow(live: LiveSandbox, opened: Observation, claims: ClaimSet, plan: Plan, ignored: str) -> None:
    """Give the containers that stay the CPUs of a plan; how much work they get done is not known from then on."""
    cpus = {claim_name(pod, one): one.cpus for pod, one in running(plan)}
    for claim in claims.claims:
        wanted = cpus.get(claim.name)
        if not wanted or wanted == opened.observer.subjects[claim.name].cpus:
            continue
        with opened.observer.changing(claim.name, wanted):
            if claim.name != ignored:
                live.set_cpus(claim.name, wanted)
        opened.promise(replace(claim, cpus=wanted, demand_cpus=None))
